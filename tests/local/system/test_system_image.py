"""The local cloud runs no containers, and says so before a job is submitted."""

from __future__ import annotations

from tests.support.system import System


def test_a_job_in_an_image_is_refused_in_words(system: System, shared: str) -> None:
    files = {"main.py": "print('it ran')\n"}
    wanted = {"nodes": 1, "script": "main.py", "files": files, "image": "python:3.12"}
    run = system.ended(system.submit("image", wanted, shared), "Failed", 180)
    assert run["problem"]["code"] == "image-needs-pyxis"
    assert run["problem"]["detail"] == "job.image: the local cloud runs no containers"
    assert run["attempts"][0]["jobId"] is None
    assert run["imageDigest"] == ""
