"""Runs ParallelCluster's own API application on loopback: `python api.py PORT`.

Its `start_local_server` binds to every address, so the application is run by hand. It gets one
thread, for its validators want the main thread's event loop.
"""

from __future__ import annotations

import sys

import loopback

loopback.hold()

from pcluster.api.flask_app import ParallelClusterFlaskApp  # noqa: E402

if __name__ == "__main__":
    application = ParallelClusterFlaskApp(swagger_ui=False, validate_responses=True).app
    application.run(host="127.0.0.1", port=int(sys.argv[1]), threaded=False)
