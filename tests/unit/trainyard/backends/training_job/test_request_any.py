"""Any spec that validates gives a request that fits SageMaker's model, or an error of ours."""

from __future__ import annotations

from typing import Any

import botocore.session
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.support.botocore_model import request_problems
from tests.support.training_jobs import intent

from trainyard.backends.training_job.image_catalog import known
from trainyard.backends.training_job.request import create_training_job_request
from trainyard.backends.training_job.warnings import warnings
from trainyard.domain.errors import InvalidRequest
from trainyard_contracts.training_job import TrainingJobClusterSpec

Fields = dict[str, Any]
TYPES = (
    botocore.session.get_session()
    .get_service_model("sagemaker")
    .shape_for("TrainingInstanceType")
    .enum
)
LIKELY = ["ml.p4d.24xlarge", "ml.p5.48xlarge", "ml.trn1.32xlarge", "ml.p5en.48xlarge"]
instance_types = st.sampled_from(LIKELY) | st.sampled_from(TYPES)
line = st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"))
lines = st.text(line, min_size=1, max_size=64)
uris = st.text(line, max_size=200).map(lambda key: f"s3://sm-bucket/{key}")
paths = st.text(line, max_size=200).map(lambda path: f"/{path}")
keys = st.from_regex(r"[a-zA-Z0-9:/_-]{1,60}", fullmatch=True)
counts = st.integers(min_value=1, max_value=2000)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Fields]:
    """Any of these fields, or none."""
    return st.fixed_dictionaries({}, optional=fields)


def all_of(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Fields]:
    return st.fixed_dictionaries(fields)


def merged(*parts: st.SearchStrategy[Fields]) -> st.SearchStrategy[Fields]:
    return st.tuples(*parts).map(lambda drawn: {k: v for part in drawn for k, v in part.items()})


groups = st.lists(
    all_of(name=lines, instanceType=instance_types, instanceCount=counts),
    min_size=1,
    max_size=5,
    unique_by=lambda group: group["name"],
)
nodes = st.one_of(
    all_of(instanceType=instance_types, instanceCount=counts), all_of(instanceGroups=groups)
)


@st.composite
def frameworks(draw: st.DrawFn) -> Fields:
    names = ["pytorch", "tensorflow", "mxnet", "huggingface", "pytorch-neuronx"]
    family = known().families[name := draw(st.sampled_from(names))]
    version = draw(st.sampled_from([*family.images, *family.aliases]))
    made: Fields = {"name": name, "version": version}
    if name == "huggingface":
        base = draw(st.sampled_from(sorted(family.images[family.aliases.get(version, version)])))
        word = "pytorch" if base.startswith("pytorch") else "tensorflow"
        made["base"] = {"name": word, "version": base.removeprefix(word)}
    if name == "tensorflow" and draw(st.booleans()):
        made["modelDir"] = draw(st.sampled_from(["none", "/opt/ml/model", "s3://abc/model"]))
    return made


images = st.one_of(
    all_of(image=st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1)),
    all_of(framework=frameworks()),
)
options = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=1200)
distributions = st.one_of(
    all_of(kind=st.sampled_from(["none", "torchrun", "parameter-server", "mpi"])),
    merged(all_of(kind=st.just("mpi")), some(processesPerHost=counts, customMpiOptions=options)),
    merged(all_of(kind=st.sampled_from(["smddp", "pytorchddp"])), some(customMpiOptions=options)),
    all_of(
        kind=st.just("smp"),
        processesPerHost=st.integers(1, 8),
        parameters=some(microbatches=st.integers(1, 8), ddp=st.booleans()),
    ),
    all_of(kind=st.just("torchrun"), library=st.sampled_from(["smddp", "smp"])),
)
LIBRARIES = {"smddp", "pytorchddp", "smp"}


@st.composite
def launches(draw: st.DrawFn) -> Fields:
    """Nodes and how the program starts there: libraries on a type and a group that have them."""
    made, how = draw(nodes), draw(distributions)
    first = made.get("instanceGroups", [made])[0]
    if how["kind"] in LIBRARIES or "library" in how:
        first["instanceType"] = "ml.p4d.24xlarge"
    if "instanceGroups" in made and how["kind"] != "none":
        how["instanceGroup"] = first["name"]
    return {**made, "distribution": how}


s3 = merged(
    all_of(uri=uris), some(distribution=st.sampled_from(["FullyReplicated", "ShardedByS3Key"]))
)
files = merged(
    all_of(fileSystemId=st.from_regex(r"fs-[0-9a-f]{8,18}", fullmatch=True), directoryPath=paths),
    some(type=st.sampled_from(["EFS", "FSxLustre"]), accessMode=st.sampled_from(["ro", "rw"])),
)
names = st.from_regex(r"[A-Za-z0-9.\-_]{1,64}", fullmatch=True)
channels = st.lists(
    st.one_of(
        merged(
            all_of(name=names, s3=s3),
            some(
                contentType=lines,
                inputMode=st.sampled_from(["File", "Pipe", "FastFile"]),
                shuffleSeed=st.integers(-(2**63), 2**63 - 1),
            ),
        ),
        all_of(name=names, fileSystem=files),
    ),
    max_size=20,
    unique_by=lambda channel: channel["name"],
)
network = all_of(
    subnetIds=st.lists(st.just("subnet-0123456789abcdef0"), min_size=1, max_size=16),
    securityGroupIds=st.lists(st.just("sg-0123456789abcdef0"), min_size=1, max_size=5),
)
tag_text = st.text(st.characters(categories=("L", "N")) | st.sampled_from(" _.:/=+-@"))
the_rest = some(
    volumeSizeGib=counts,
    volumeKmsKeyId=keys,
    outputKmsKeyId=keys,
    outputCompression=st.sampled_from(["GZIP", "NONE"]),
    inputMode=st.sampled_from(["File", "Pipe", "FastFile"]),
    networkIsolation=st.booleans(),
    interContainerEncryption=st.booleans(),
    metricsTimeSeries=st.booleans(),
    warmPoolSeconds=st.integers(1, 21600),
    spot=all_of(maxWaitSeconds=st.integers(86400, 2**31 - 1)),
    checkpoints=merged(all_of(s3Uri=uris), some(localPath=paths)),
    retryAttempts=st.integers(1, 30),
    metricDefinitions=st.lists(all_of(name=lines, regex=lines), max_size=40),
    tags=st.dictionaries(
        tag_text.map(lambda text: f"k{text[:100]}"), tag_text.map(lambda text: text[:256])
    ),
)
specs = merged(
    st.just({"backend": "training-job", "name": "demo"}),
    launches(),
    images,
    all_of(channels=channels, network=network),
    the_rest,
)


def read(fields: Fields) -> TrainingJobClusterSpec:
    """The spec; an example that is none is thrown away."""
    try:
        return TrainingJobClusterSpec.model_validate(fields)
    except ValidationError:
        assume(False)
        raise


def made_of(spec: TrainingJobClusterSpec) -> Fields:
    """The request. Without an `image`, AWS's may not be known, which is the only thing refused."""
    try:
        return create_training_job_request(intent(spec))
    except InvalidRequest as refused:
        known_field = spec.framework and refused.errors[0].field.startswith("framework")
        assume(not known_field)
        raise


@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(fields=specs)
def test_any_spec_that_validates_gives_a_request_that_aws_s_model_takes(fields: Fields) -> None:
    request = made_of(read(fields))
    assert request_problems("sagemaker", "CreateTrainingJob", request) == []


@settings(
    max_examples=50,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(fields=specs)
def test_any_spec_reads_back_as_it_was_written_and_warns_in_sentences(fields: Fields) -> None:
    made = read(fields)
    again = TrainingJobClusterSpec.model_validate_json(made.model_dump_json(by_alias=True))
    assert again == made
    assert all(said.endswith(".") and ": " in said for said in warnings(made))
