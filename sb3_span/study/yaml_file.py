"""YAML files of unknown origin: plain data only, and no more of it than a study needs."""

from pathlib import Path
from typing import Any

import yaml

MAX_VALUES = 200_000


def read_yaml(path: Path) -> Any:
    """
    :param path: A file, whose aliases (``*name``) must not multiply its size excessively
    :raises OSError: If it cannot be read
    """
    text = path.read_bytes()
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if (values := _count(node, {})) > MAX_VALUES:
            raise ValueError(f"with its aliases (*name) written out it has {values:,} values; at most {MAX_VALUES:,} are read")
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        raise ValueError(f"is not YAML: {error}") from error
    except RecursionError as error:
        raise ValueError("is nested too deeply, or contains itself") from error
    finally:
        loader.dispose()


def _count(node: yaml.Node, known: dict[int, int]) -> int:
    """The number of values with every alias written out, found without writing them out."""
    if id(node) not in known:
        known[id(node)] = MAX_VALUES  # for a node that contains itself
        children = [child for pair in node.value for child in pair] if isinstance(node, yaml.MappingNode) else node.value
        is_group = isinstance(node, yaml.CollectionNode)
        known[id(node)] = 1 + (sum(_count(child, known) for child in children) if is_group else 0)
    return known[id(node)]
