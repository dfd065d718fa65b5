"""Names of nodes are written and read as Slurm does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard_agent.host.slurm_names import compress, expand


@pytest.mark.parametrize(
    ("hosts", "names"),
    [
        ("(null)", ()),
        ("a", ("a",)),
        ("a[1-3,7],b", ("a1", "a2", "a3", "a7", "b")),
        ("n[08-10]x", ("n08x", "n09x", "n10x")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
    ],
)
def test_host_lists_are_expanded(hosts: str, names: tuple[str, ...]) -> None:
    assert expand(hosts) == names


@given(
    st.lists(
        st.from_regex(r"ip-10-[0-3]-[0-9]{1,2}-[0-9]{1,3}|node[0-9]{0,4}|head", fullmatch=True),
        max_size=40,
    )
)
def test_a_compressed_host_list_is_expanded_to_the_same_names(names: list[str]) -> None:
    assert sorted(expand(compress(names))) == sorted(set(names))


def test_neighbours_are_compressed_as_slurm_writes_them() -> None:
    assert (
        compress(["ip-10-0-0-3", "ip-10-0-0-1", "ip-10-0-0-2", "ip-10-0-0-7", "ip-10-0-1-9"])
        == "ip-10-0-0-[1-3,7],ip-10-0-1-9"
    )


def test_the_largest_clusters_nodes_are_excluded_within_one_arguments_length() -> None:
    names = [f"ip-10-{n % 97}-{n % 256}-{n * 7 % 256}" for n in range(6758)]
    assert len(set(names)) > 6000
    assert len(compress(names)) < 128 * 1024
