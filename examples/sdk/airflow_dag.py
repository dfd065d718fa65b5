"""A training each night from Airflow: a task that is tried again finds the run that it submitted.

Put it into Airflow's folder of DAGs, with `pip install trainyard` beside Airflow and the AWS
credentials of the workers allowed to call execute-api.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from airflow.decorators import dag, task
from airflow.exceptions import AirflowFailException

from trainyard_sdk import RunFailed, Trainyard

SPEC = "/opt/airflow/trainyard/nightly.yaml"


@dag(schedule="0 1 * * *", start_date=datetime(2026, 1, 1), catchup=False)
def nightly_training() -> None:
    @task(retries=5, retry_delay=timedelta(minutes=5), execution_timeout=timedelta(hours=12))
    def train(dag_run: Any = None) -> str:
        """The id of the run that has succeeded."""
        with Trainyard(context="prod") as yard:
            # The same key in each try: one run, whatever becomes of the worker that waits for it.
            run = yard.submit(SPEC, idempotency_key=f"airflow {dag_run.run_id}"[:128])
            try:
                return run.wait().id
            except RunFailed as failed:  # Trainyard has tried again all that may pass
                raise AirflowFailException(f"{failed}. {failed.next_step}") from failed

    train()


nightly_training()
