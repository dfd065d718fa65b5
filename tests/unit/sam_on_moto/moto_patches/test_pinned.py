"""A patch of moto whose target changed says so, and patches nothing."""

from __future__ import annotations

import pytest

from sam_on_moto.moto_patches import pinned


def test_a_hook_whose_target_is_gone_says_so() -> None:
    class Backend:
        def there(self, a: int) -> None: ...

    with pytest.raises(pinned.MotoChanged, match=r"Backend.gone any more"):
        pinned.replace(Backend, "gone", None)
    with pytest.raises(pinned.MotoChanged, match=r"takes \('self', 'a'\), not \('self', 'b'\)"):
        pinned.replace(Backend, "there", None, parameters=("self", "b"))
