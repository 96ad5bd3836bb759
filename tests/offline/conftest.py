import importlib.util

if importlib.util.find_spec("d3rlpy") is None:  # the extra 'offline' is not installed
    collect_ignore_glob = ["test_*.py"]
