"""What nodes cost on AWS by a list of some day, for a dry run where nodes cost nothing.

The local cloud's nodes are free, and its bills stay so. But a person who tries a spec there wants
to know what it would cost on AWS. This table is short on purpose: it has only prices that somebody
read from AWS's Price List API and published with usage type and day. They were not read by us, and
AWS's own list counts. Of everything else a dry run says that it is not known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from trainyard_contracts.cluster_base import ClusterBase, GroupBase


@dataclass(frozen=True)
class Listed:
    """USD for an hour of one node, on demand; `usage_type` and `sku` as AWS's price list has them.

    `sku` is '' where its reader did not write it down.
    """

    usd: float
    on: date
    usage_type: str
    sku: str = ""


@dataclass(frozen=True)
class ListPrice:
    """What an hour of all nodes would cost; None where that is not known. `words` say the rest."""

    hourly_usd: float | None
    on: date | None
    words: str


#: By region; the usage type says of which use of which type it is.
TABLE: Mapping[str, Sequence[Listed]] = {
    "us-east-1": (
        Listed(3.06, date(2026, 9, 15), "USE1-Cluster:ml.g5.8xlarge", "YQXD4PZ3BTQ5N2P4"),
        Listed(0.115, date(2026, 8, 11), "USE1-Train:ml.m5.large", "JMCWJEAPVJNFJ5P4"),
        Listed(1.515, date(2026, 8, 20), "USE1-Train:ml.g5.2xlarge"),
        Listed(1.624, date(2026, 9, 16), "BoxUsage:g5.4xlarge"),
    ),
    "us-west-2": (Listed(25.91001756, date(2026, 10, 1), "USW2-Cluster:ml.p4d.24xlarge"),),
}
#: From an instance type to the usage types that its price may be listed under, as an expression.
UsageOf = Callable[[str], str]


def list_price(
    spec: ClusterBase,
    region: str,
    hourly: float | None,
    usage_of: UsageOf,
    part: float = 1.0,
) -> ListPrice | None:
    """Of all its nodes on demand, spares too. `part` is the run's, of a cluster that others use.

    `hourly` is what the deployment's own price list says: 0 on the local cloud, None where it does
    not know. Where it says more, that counts, and a person's own word does, too.
    """
    if hourly or spec.hourly_usd is not None:
        return None
    free, groups = hourly == 0, spec.groups()
    found = [(one.count + one.spares, _of(region, one, usage_of)) for one in groups]
    known = [(nodes, price) for nodes, price in found if price is not None]
    if not known or len(known) < len(found):
        return _unknown(spec, region, usage_of) if free else None
    usd = round(sum(nodes * price.usd for nodes, price in known) * part, 4)
    on = min(price.on for _, price in known)
    end = "not what the local cloud costs" if free else "the price list here does not say"
    words = f"{usd:.2f} USD an hour in {region}: list price of {on:%Y-%m-%d}, {end}."
    return ListPrice(usd, on, words)


def _unknown(spec: ClusterBase, region: str, usage_of: UsageOf) -> ListPrice:
    groups = [one for one in spec.groups() if _of(region, one, usage_of) is None]
    names = ", ".join(sorted({one.instance_type for one in groups}))
    words = (
        "not known: the local cloud costs nothing, and no list price of "
        f"{names} in {region or 'this region'} is shipped."
    )
    return ListPrice(None, None, words)


def _of(region: str, group: GroupBase, usage_of: UsageOf) -> Listed | None:
    if not group.on_demand:
        return None
    wanted = usage_of(group.instance_type)
    return next(
        (one for one in TABLE.get(region, ()) if re.fullmatch(wanted, one.usage_type)), None
    )
