"""
The reports in results/, from the packed records there:

    python docs/reports.py            # make reports: all of them
    python docs/reports.py results/slope

They have the text and the tables of ``sb3-span report``, which writes the figures too.
"""

import sys
from pathlib import Path

from sb3_span.report.load import load_study
from sb3_span.report.page import markdown
from sb3_span.report.sections import build_sections
from sb3_span.study.packed import PACKED

RESULTS = Path(__file__).parents[1] / "results"


def page(folder: Path) -> str:
    """
    :param folder: A packed study
    :return: Its report in Markdown, without figures
    """
    study = load_study(folder)
    note = f"`sb3-span report results/{folder.name}` makes the figures, and the tables as CSV."
    return markdown(f"Report of the study {study.name}", build_sections(study, None), note)


def main(folders: list[Path]) -> None:
    for folder in folders or sorted(path.parents[1] for path in RESULTS.glob("*/report/report.md")):
        if (folder / PACKED).exists():
            (folder / "report" / "report.md").write_text(page(folder))
            print(f"Written: {folder / 'report' / 'report.md'}", flush=True)


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
