"""The demo's story as a program: a node dies in the middle of a training, and nobody has to come.

On a local cloud that is up: python examples/sdk/demo_story.py [SPEC]
"""

import sys

from trainyard_sdk import Trainyard

spec = sys.argv[1] if len(sys.argv) > 1 else "examples/ddp-demo.yaml"
with Trainyard() as yard:
    run = yard.submit(spec)
    killed = False
    for event in run.events():
        print(f"{event.at:%H:%M:%S}  {event.message}", flush=True)
        if event.type == "CheckpointCommitted" and not killed:
            node = run.refresh().view.attempts[-1].nodes[-1]
            yard.client.fault("kill-node", run.view.cluster_name, node=node)
            killed = True
    run.wait()  # raises RunFailed with what to do next, if it did not succeed
    for incident in run.view.incidents:
        print(f"{incident.cause} on {incident.node}: {', '.join(incident.actions)}")
    losses = run.metrics().columns()["loss"]
    print(f"{len(losses)} samples, last loss {losses[-1] if losses else 'unknown'}")
    print(f"{len(run.download('build/sdk-demo', pattern='final').fetched)} files of the model")
