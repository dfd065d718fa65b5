"""Our part of Slurm's settings and its hook at the end of a job."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support.lifecycle import LIFECYCLE, a_node, on_aws
from tests.support.waiting import eventually

from trainyard_agent.host import slurm_settings


def test_our_slurm_settings_are_a_file_of_our_own_and_one_line_at_the_end(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    node = a_node(scripts, tmp_path / "root", bundle, address="10.1.0.5")
    conf = tmp_path / "root/opt/slurm/etc/slurm.conf"
    before = conf.read_text()
    assert "MessageTimeout=11" in before
    for _ in range(2):
        scripts.step_slurm.hooks(node)
        assert conf.read_text() == before + "Include trainyard.conf\n"
    ours = conf.with_name("trainyard.conf").read_text().splitlines()
    assert f"EpilogSlurmctld={tmp_path}/root/opt/trainyard/bin/slurm-job-end" in ours
    assert {
        "MessageTimeout=2",
        "Epilog=/bin/true",
        "SchedulerParameters=batch_sched_delay=0",
    } <= set(ours)
    assert "KillWait" not in "".join(ours), (
        "how long everybody's jobs may save when they are ended is not ours to say"
    )


def test_a_slurm_conf_with_a_comment_in_another_encoding_costs_no_node(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    node = a_node(scripts, tmp_path / "root", bundle, address="10.1.0.5")
    conf = tmp_path / "root/opt/slurm/etc/slurm.conf"
    before = conf.read_bytes() + "# J\xf6rg\n".encode("latin-1")
    conf.write_bytes(before)
    scripts.step_slurm.hooks(node)
    assert conf.read_bytes() == before + b"Include trainyard.conf\n"
    assert "SlurmctldHost" in scripts.node_facts.whole(conf)


@pytest.mark.parametrize("settings", [{"Epilog": "/bin/true"}, {"MessageTimeout": "2"}])
def test_a_setting_that_was_written_after_ours_is_followed_by_ours_again(
    settings: dict[str, str],
) -> None:
    conf = "SlurmctldHost=a\nInclude trainyard.conf\nNodeName=ip-1\n"
    assert slurm_settings.included(conf, settings)
    assert not slurm_settings.included(
        conf + "".join(f"{key.lower()} = 7\n" for key in settings), settings
    )
    assert not slurm_settings.included("SlurmctldHost=a\n#Include trainyard.conf\n", settings)


def test_no_line_is_lost_that_another_hand_adds_while_ours_is_written(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text("SlurmctldHost=a\n")
    for number in range(50):
        appender = threading.Thread(
            target=lambda number=number: slurm_settings._append(conf, f"NodeName=ip-{number}\n")
        )
        conf.write_text(conf.read_text().replace("Include trainyard.conf\n", ""))
        appender.start()
        slurm_settings.keep(conf, 2, None)
        appender.join()
        assert f"NodeName=ip-{number}" in conf.read_text().splitlines()
    assert "Include trainyard.conf" in conf.read_text().splitlines()


def test_what_the_scheduler_was_told_already_stays() -> None:
    assert (
        slurm_settings.additions("SchedulerParameters=bf_interval=5")["SchedulerParameters"]
        == "bf_interval=5,batch_sched_delay=0"
    )
    assert "SchedulerParameters" not in slurm_settings.additions(
        "SchedulerParameters=batch_sched_delay=2,bf_interval=5"
    )


def test_an_epilog_that_the_cluster_has_already_stays(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    node = a_node(scripts, tmp_path / "root", bundle)
    path = tmp_path / "root/opt/slurm/etc/slurm.conf"
    path.write_text(path.read_text() + "Epilog = /opt/site/epilog.sh\n")
    scripts.step_slurm.hooks(node)
    assert [
        line
        for line in path.with_name("trainyard.conf").read_text().splitlines()
        if line.startswith("Epilog")
    ] == []


def test_only_the_controller_gets_the_job_end_hook(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    scripts.step_slurm.hooks(a_node(scripts, tmp_path / "root", bundle))
    assert "EpilogSlurmctld" not in (tmp_path / "root/opt/slurm/etc/trainyard.conf").read_text()


@pytest.mark.parametrize(("address", "role"), [("10.1.0.6", "worker"), ("10.1.0.8", "login")])
def test_a_slurm_conf_that_lies_on_a_worker_or_login_node_is_left_alone(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path, address: str, role: str
) -> None:
    """The image leaves one there until slurmd's unit deletes it."""
    node = on_aws(scripts, tmp_path, bundle, address=address)
    path = tmp_path / "root/opt/slurm/etc/slurm.conf"
    node = scripts.node.Node("", bundle, node.cluster, node.identity, {"SLURM_CONF": str(path)})
    assert node.identity.role == role
    before = path.read_text()
    scripts.step_slurm.hooks(node)
    assert path.read_text() == before
    assert scripts.step_slurm.slurm_conf(node) is None


def test_a_slurm_conf_that_never_comes_costs_our_settings_and_not_the_controller(
    scripts: SimpleNamespace,
    tmp_path: Path,
    bundle: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(scripts.step_slurm, "CONFIGURATION_WAIT_SECONDS", 0.0)
    node = a_node(scripts, tmp_path / "root", bundle, address="10.1.0.5")
    (tmp_path / "root/opt/slurm/etc/slurm.conf").unlink()
    scripts.step_slurm.hooks(node)
    assert "WARNING" in capsys.readouterr().out


@pytest.mark.real
def test_an_epilog_of_slurmctld_that_the_cluster_has_already_runs_beside_ours(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    root, mark = tmp_path / "root", tmp_path / "mark"
    site = tmp_path / "site-epilog"
    site.write_text(f"#!/bin/sh\necho site >> {mark}\n")
    site.chmod(0o755)
    node = a_node(scripts, root, bundle, address="10.1.0.5")
    conf = root / "opt/slurm/etc/slurm.conf"
    conf.write_text(conf.read_text() + f"EpilogSlurmctld={site}\n")
    scripts.step_install.agent(node)
    for _ in range(2):  # the second time ours is there already, and is no epilog of the cluster's
        scripts.step_slurm.hooks(node)
    subprocess.run([str(root / "opt/trainyard/bin/slurm-job-end")], check=True, timeout=120)
    eventually("the cluster's epilog wrote", lambda: mark.exists() and mark.read_text(), 30)
    assert mark.read_text() == "site\n"


def test_our_own_epilog_is_never_taken_for_one_of_the_clusters(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    node = a_node(scripts, tmp_path / "root", bundle, address="10.1.0.5")
    conf = tmp_path / "root/opt/slurm/etc/slurm.conf"
    conf.write_text(
        conf.read_text() + f"EpilogSlurmctld={tmp_path}/root/opt/trainyard/bin/slurm-job-end\n"
    )
    scripts.step_slurm.hooks(node)
    assert not (tmp_path / "root/etc/trainyard/epilog-before-ours").exists(), (
        "it would call itself without end"
    )


@pytest.mark.real
@pytest.mark.parametrize(
    ("version", "calls_it"),
    [
        ("22.05.8", True),
        ("23.11.10", True),
        ("24.05.0", False),
        ("24.11.5", False),
        ("25.05.1", False),
    ],
)
def test_a_slurm_that_runs_every_epilog_itself_has_ours_call_no_other(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path, version: str, calls_it: bool
) -> None:
    node = a_node(scripts, tmp_path / "root", bundle, address="10.1.0.5")
    scontrol = tmp_path / "bin/scontrol"
    scontrol.parent.mkdir()
    scontrol.write_text(f"#!/bin/sh\necho slurm {version}\n")
    scontrol.chmod(0o755)
    node.environ["PATH"] = f"{scontrol.parent}:/usr/bin:/bin"
    conf = tmp_path / "root/opt/slurm/etc/slurm.conf"
    conf.write_text(conf.read_text() + "EpilogSlurmctld=/opt/site/epilog\n")
    scripts.step_slurm.hooks(node)
    assert (tmp_path / "root/etc/trainyard/epilog-before-ours").exists() == calls_it


@pytest.mark.real
def test_the_end_of_a_job_is_told_by_any_user(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    """slurmctld runs its epilog as SlurmUser, who owns none of our directories."""
    if os.geteuid() != 0:
        pytest.skip("another user's process takes root")
    root = tmp_path / "root"
    scripts.step_install.agent(a_node(scripts, root, bundle, address="10.1.0.5"))
    told = tmp_path / "told"
    told.touch()
    told.chmod(0o666)
    launcher = root / "opt/trainyard/bin/trainyard-agent"
    launcher.write_text(f"#!/bin/sh\necho $1 >> {told}\n")
    for parent in [tmp_path, *tmp_path.parents[:3]]:
        parent.chmod(parent.stat().st_mode | 0o055)
    subprocess.run(
        [str(root / "opt/trainyard/bin/slurm-job-end")],
        check=True,
        timeout=120,
        user=65534,
        group=65534,
        env={"PATH": "/usr/bin:/bin"},
    )
    eventually("the agent is told", told.read_text, 30)
    assert told.read_text() == "notify-job-end\n"


def test_our_settings_keep_the_owner_of_slurm_conf(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("another owner takes root")
    node = a_node(scripts, tmp_path / "root", bundle, address="10.1.0.5")
    path = tmp_path / "root/opt/slurm/etc/slurm.conf"
    os.chown(path, 65534, 65534)
    scripts.step_slurm.hooks(node)
    ours = path.with_name("trainyard.conf")
    assert "EpilogSlurmctld" in ours.read_text()
    assert [(one.stat().st_uid, one.stat().st_gid) for one in (path, ours)] == [(65534, 65534)] * 2


@pytest.mark.parametrize(("workers", "seconds"), [(2, "2"), (16, "2"), (17, "10"), (6758, "10")])
def test_a_large_cluster_gets_longer_message_timeouts(workers: int, seconds: str) -> None:
    assert slurm_settings.wanted("", workers, None)["MessageTimeout"] == seconds


@pytest.mark.parametrize(
    ("setup", "address", "options"),
    [
        ("SlurmConfig", "10.1.0.6", ""),
        ("ProvisioningParameters", "10.1.0.5", ""),
        (
            "ProvisioningParameters",
            "10.1.0.6",
            'Environment="SLURMD_OPTIONS=--conf-server 10.1.0.5"\n',
        ),
        (
            "ProvisioningParameters",
            "10.1.0.8",
            'Environment="SLURMD_OPTIONS=--conf-server 10.1.0.5"\n',
        ),
    ],
)
def test_slurmd_learns_its_server_where_our_scripts_set_slurm_up(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path, setup: str, address: str, options: str
) -> None:
    assert (
        scripts.step_install.slurmd_options(
            a_node(scripts, tmp_path / "root", bundle, address=address, slurmSetup=setup)
        )
        == options
    )


@pytest.mark.real
def test_services_that_do_not_start_are_told_in_one_line_with_their_last_words(
    tmp_path: Path,
) -> None:
    services = tmp_path / "opt/trainyard/bin/start-services"
    services.parent.mkdir(parents=True)
    services.write_text("echo 'slurmd: fatal: no such user'\nsleep 0.2\nexit 1\n")
    environment = {
        "PATH": os.environ["PATH"],
        "TRAINYARD_ROOT": str(tmp_path),
        "TRAINYARD_PYTHON": "true",
    }
    done = subprocess.run(
        [str(LIFECYCLE / "on_create.sh")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert done.stdout.splitlines()[-1].endswith(
        "ended with an error; its last words: slurmd: fatal: no such user"
    )
