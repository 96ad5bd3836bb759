"""``python -m sb3_span.cli``"""

from sb3_span.cli.program import main

if __name__ == "__main__":
    main()
