"""The parameter by which a change is only looked at."""

from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Query

DryRun = Annotated[bool, Query(description="answer with the plan and do nothing")]
