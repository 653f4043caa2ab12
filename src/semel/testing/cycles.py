"""Finds the cycles of a directed graph: strongly connected components of more than one node (Tarjan's algorithm)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping


def cycles(edges: Mapping[int, Iterable[int]]) -> list[set[int]]:
    """Return every set of two or more nodes that can all reach each other. ``edges`` has an entry for every node."""
    found: list[set[int]] = []
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()

    def visit(node: int) -> tuple[int, Iterator[int]]:
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        return node, iter(sorted(edges[node]))

    for root in edges:
        # An explicit stack instead of recursion: the checker's chain of instants is as long as the history.
        path = [] if root in index else [visit(root)]
        while path:
            node, targets = path[-1]
            for target in targets:
                if target not in index:
                    path.append(visit(target))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                path.pop()
                if path:
                    parent = path[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == index[node]:
                    component = set()
                    while node not in component:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.add(member)
                    if len(component) > 1:
                        found.append(component)
    return found
