"""What the table stores: runs, clusters, facts, timeline entries; plain frozen data.

All that several rooms name are found here by one path; each kind has its module.
"""

from trainyard.domain.adoption_records import AdoptedNode as AdoptedNode  # noqa: PLC0414
from trainyard.domain.adoption_records import Adoption as Adoption  # noqa: PLC0414
from trainyard.domain.attempt_records import Action as Action  # noqa: PLC0414
from trainyard.domain.attempt_records import Attempt as Attempt  # noqa: PLC0414
from trainyard.domain.change_records import CHANGE_ENDS as CHANGE_ENDS  # noqa: PLC0414
from trainyard.domain.change_records import CapacityTry as CapacityTry  # noqa: PLC0414
from trainyard.domain.change_records import ChangeState as ChangeState  # noqa: PLC0414
from trainyard.domain.change_records import ClusterChange as ClusterChange  # noqa: PLC0414
from trainyard.domain.cluster_records import Cluster as Cluster  # noqa: PLC0414
from trainyard.domain.cluster_records import ClusterStatus as ClusterStatus  # noqa: PLC0414
from trainyard.domain.cluster_records import mark_of as mark_of  # noqa: PLC0414
from trainyard.domain.cost_records import CostLine as CostLine  # noqa: PLC0414
from trainyard.domain.cost_records import RunCost as RunCost  # noqa: PLC0414
from trainyard.domain.incident_records import Incident as Incident  # noqa: PLC0414
from trainyard.domain.node_records import ClusterNode as ClusterNode  # noqa: PLC0414
from trainyard.domain.origin_records import ArrayMember as ArrayMember  # noqa: PLC0414
from trainyard.domain.origin_records import Asked as Asked  # noqa: PLC0414
from trainyard.domain.origin_records import Code as Code  # noqa: PLC0414
from trainyard.domain.origin_records import Start as Start  # noqa: PLC0414
from trainyard.domain.output_records import Checkpoint as Checkpoint  # noqa: PLC0414
from trainyard.domain.output_records import Export as Export  # noqa: PLC0414
from trainyard.domain.record import Problem as Problem  # noqa: PLC0414
from trainyard.domain.record import Record as Record  # noqa: PLC0414
from trainyard.domain.record import TimelineEntry as TimelineEntry  # noqa: PLC0414
from trainyard.domain.run_records import TERMINAL as TERMINAL  # noqa: PLC0414
from trainyard.domain.run_records import Run as Run  # noqa: PLC0414
from trainyard.domain.run_records import RunStatus as RunStatus  # noqa: PLC0414
from trainyard.domain.wait_records import Wait as Wait  # noqa: PLC0414
from trainyard.domain.wait_records import WaitKind as WaitKind  # noqa: PLC0414
