"""Write docs/claims.md, the paper claim by claim, from the records in results: make claims."""

from pathlib import Path

from claims.page import build
from claims.records import Records

DOCS = Path(__file__).parent

if __name__ == "__main__":
    (DOCS / "claims.md").write_text(build(Records(DOCS.parent / "results")))
