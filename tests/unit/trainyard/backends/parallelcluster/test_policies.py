"""What nodes of one cluster may do is no other cluster's."""

from __future__ import annotations

from tests.support.parallelcluster_specs import making, spec

from trainyard.backends.parallelcluster.policies import node_policy, policies_path, policy_of
from trainyard.domain.names import cluster_of_role


def resources(sid: str) -> list[str]:
    (statement,) = [one for one in node_policy(making())["Statement"] if one["Sid"] == sid]
    return list(statement["Resource"])


def test_its_name_is_one_that_the_api_stack_may_attach() -> None:
    policy = policy_of(making())
    assert policy.name.startswith("parallelcluster-prod-llm-pretrain-")
    assert policy.arn.endswith(f":111122223333:policy{policy.path}{policy.name}")
    assert policy_of(making(generation=4)).arn != policy.arn


def test_its_path_tells_whose_it_is_and_lies_below_that_of_the_stack() -> None:
    path = policy_of(making()).path
    assert path.startswith(policies_path(making().settings))
    assert cluster_of_role(path) == ("llm-pretrain", 3)


def test_jobs_read_the_secrets_of_the_spec_and_no_others() -> None:
    secrets = "arn:aws:secretsmanager:us-east-1:111122223333:secret"
    assert resources("Secrets") == [
        f"{secrets}:trainyard/prod/llm-pretrain/agent-key-??????",
        f"{secrets}:team/token-??????",
    ]


def test_every_object_that_may_be_written_lies_below_the_clusters_own_prefix() -> None:
    written = [*resources("WriteLogsAndExports"), *resources("Sync")]
    assert all("/clusters/llm-pretrain/" in one or "/sync/llm-pretrain/" in one for one in written)
    assert len(written) == 4


def test_two_clusters_share_no_object() -> None:
    mine, other = (
        {
            resource
            for statement in node_policy(making(spec(name=name)))["Statement"]
            if statement["Sid"] in ("ReadBundles", "WriteLogsAndExports", "Sync", "Secrets")
            for resource in statement["Resource"]
        }
        for name in ("one", "two")
    )
    assert not mine & other
