"""A host that cannot boot nodes says what it lacks, and how to get it."""

from __future__ import annotations

import pytest

from trainyard_local.machines import host as machine_host


def test_without_its_packages_a_machine_says_which_and_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        machine_host.shutil,
        "which",
        lambda program, path: None if program in ("debootstrap", "nft") else f"/usr/bin/{program}",
    )
    with pytest.raises(machine_host.Impossible) as refused:
        machine_host.require()
    assert "debootstrap, nftables" in refused.value.message
    assert "apt-get install -y --no-install-recommends debootstrap nftables" in refused.value.remedy
