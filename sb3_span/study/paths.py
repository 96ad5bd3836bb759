"""Options of a hyperparameter file's entry by their paths, such as ``span_arch.nmodes``."""

import copy
from collections.abc import Iterator
from typing import Any


def short_names(options: list[str]) -> dict[str, str]:
    """
    :param options: Paths such as ``span_arch.nmodes``
    :return: For each the shortest ending that is unique: ``nmodes``, or ``pi.nmodes`` if there is ``vf.nmodes``
    """
    names = {}
    for option in dict.fromkeys(options):
        parts = option.split(".")
        ends = [".".join(parts[-n:]) for n in range(1, len(parts) + 1)]
        others = [other for other in options if other != option]
        names[option] = next((end for end in ends if not any(f".{other}".endswith(f".{end}") for other in others)), option)
    return names


def check_option(entry: dict[str, Any], option: str, where: str, method: str, env: str) -> None:
    """Refuse an option of a group that the method does not have, such as ``span_arch.nmodes`` of an MLP."""
    for part in _parts(option)[:-1]:
        if not isinstance(entry.get(part), dict):
            raise ValueError(f"{where}: the hyperparameters of the method {method!r} for {env} have no {part!r} to vary")
        entry = entry[part]


def get_option(entry: dict[str, Any], option: str) -> Any:
    """An option of a Zoo file's entry; None if it is left out."""
    *groups, last = _parts(option)
    for group in groups:
        entry = entry[group]
    return entry.get(last)


def replace_options(entry: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """A copy of a Zoo file's entry with other values for some options."""
    entry = copy.deepcopy(entry)
    for option, value in options.items():
        *groups, last = _parts(option)
        target = entry
        for group in groups:
            target = target[group]
        target[last] = value
    return entry


def differences(old: Any, new: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The differences of two plans' settings: path, old value, new value."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from differences(old.get(key), new.get(key), f"{where}.{key}" if where else key)
    elif old != new:
        yield where, old, new


def _parts(option: str) -> list[str]:
    # The options that studies vary most have a short path.
    return f"policy_kwargs.{option}".split(".") if option.startswith("span_arch.") else option.split(".")
