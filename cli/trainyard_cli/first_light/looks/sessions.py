"""Whether Session Manager runs commands on the controller as we think, by the first submission."""

from __future__ import annotations

import re

from ..register import look
from ..stage_names import StageName
from ..trouble import sentence, trouble
from ..verdicts import Seen, broken, held, unseen
from ..world import World

NOT_CONNECTED = "is not connected"
NO_CODE = "without the command's exit code"
COMMAND: tuple[StageName, ...] = ("command", "train")


def submitted(world: World) -> bool:
    return any(attempt.get("jobId") for attempt in world.attempts)


def _unless(
    world: World, assumption: str, signs: tuple[str, ...], what: str, remedy: str, *, held_by: str
) -> Seen:
    """Broken where the cause that held up the first submission has all these signs.

    The line with the first sign is the evidence.
    """
    text = trouble(world)
    if all(sign in text for sign in signs):
        return broken(assumption, f"{what}: {sentence(text, signs[0])}", remedy)
    return held(assumption, held_by) if submitted(world) else unseen(assumption, "no command ran")


@look("A-001", after=COMMAND)
def start_session_reaches_nodes_of_hyperpod(world: World) -> Seen:
    if submitted(world):
        return held("A-001", "a session on the controller ran the agent's submit")
    text = trouble(world)
    if re.search(r"InvalidTarget|not (a )?valid.{0,40}target|UnsupportedOperation", text):
        return broken(
            "A-001",
            f"StartSession does not take a HyperPod node: {sentence(text, 'arget')}",
            (
                "Try aws ssm start-session by hand with the target of the evidence; "
                "there is no other way to the nodes"
            ),
        )
    return unseen("A-001", "no session came about")


@look("A-002", after="command")
def a_target_has_the_clusters_id(world: World) -> Seen:
    text = trouble(world)
    if submitted(world):
        return held(
            "A-002", "the controller was reached as sagemaker-cluster:<id>_<group>-<instance id>"
        )
    heard = world.agent_heard_at
    if NOT_CONNECTED in text and heard:
        return broken(
            "A-002",
            (
                "Session Manager does not know the target, though the node lives and its agent "
                f"was heard at {heard}: {sentence(text, NOT_CONNECTED)}"
            ),
            (
                "Try aws ssm start-session with the cluster's name in the place of its id; "
                "correct SessionCommands._look_up by what works"
            ),
        )
    return unseen(
        "A-002", "no session came about, for another reason" if text else "no session came about"
    )


@look("A-003", after=COMMAND)
def a_command_is_split_without_a_shell(world: World) -> Seen:
    return _unless(
        world,
        "A-003",
        ("Unable to start command",),
        "the node's agent could not start the command as it is split",
        (
            "Look at the SSM agent's version on the node and its log; "
            "the command is quoted in SessionChannel.run"
        ),
        held_by="the submit's arguments arrived whole",
    )


@look("A-004", after=COMMAND)
def a_session_tells_the_exit_code(world: World) -> Seen:
    return _unless(
        world,
        "A-004",
        (NO_CODE,),
        "a session ended without EXIT_CODE",
        (
            "The SSM agent on the node must be 3.1.1511 or newer: "
            "look at its version, and report what the channel carried"
        ),
        held_by="the submit ended with an exit code",
    )


@look("A-006", after="command")
def a_node_that_is_not_connected_will_be(world: World) -> Seen:
    delayed = [entry for entry in world.timeline("Delayed") if NOT_CONNECTED in entry["message"]]
    if delayed and submitted(world):
        return held("A-006", f"it was not connected at {delayed[0]['at']}, and later it was")
    return unseen(
        "A-006", "no first try met a node that was not connected and a later one that was"
    )


@look("A-007", after=COMMAND)
def the_token_alone_opens_the_channel(world: World) -> Seen:
    return _unless(
        world,
        "A-007",
        ("data channel broke off", "reject"),
        "the data channel was refused",
        "Compare the opening with session-manager-plugin's (src/communicator/websocketchannel.go)",
        held_by="the data channel opened with the session's token",
    )


@look("A-008", after=COMMAND)
def the_handshake_goes_as_we_speak_it(world: World) -> Seen:
    text = trouble(world)
    if "encrypt sessions with KMS" in text:
        return held(
            "A-008",
            (
                "the agent asked for KMSEncryption in the handshake, which must be switched off in "
                "the account's preferences"
            ),
        )
    if "but nothing came in" in text or "Handshake timed out" in text:
        return broken(
            "A-008",
            f"the handshake did not come about: {sentence(text, 'came in')}",
            "Look at the SSM agent's log on the controller",
        )
    return (
        held("A-008", "the handshake went through")
        if submitted(world)
        else unseen("A-008", "no command ran")
    )


@look("A-037", after=COMMAND)
def who_has_a_session_may_become_root(world: World) -> Seen:
    return _unless(
        world,
        "A-037",
        ("sudo is refused",),
        "whoever has a session may not become root",
        (
            "Let sessions run as a user with sudo without a password, such as ssm-user or ubuntu "
            "(Session Manager's preferences, Run As)"
        ),
        held_by="sudo -n ran the agent's submit",
    )


@look("A-053", after="command")
def our_functions_may_start_sessions_on_clusters(world: World) -> Seen:
    return _unless(
        world,
        "A-053",
        ("StartSession", "AccessDenied"),
        "StartSession was refused",
        (
            "Compare the resource in the refusal with the statement on ssm:StartSession of "
            "StepsRole in template.yaml"
        ),
        held_by="StartSession was allowed",
    )
