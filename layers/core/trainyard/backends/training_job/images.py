"""URIs of AWS's framework images, from the SDK's data (images.json; scripts/training_images.py)."""

from collections.abc import Iterable, Sequence

from trainyard.backends.training_job.image_catalog import Family, Image, known
from trainyard.domain import errors
from trainyard_contracts.training_job_launch import Distribution, Framework, numbers
from trainyard_contracts.training_job_rules import is_gpu, is_trainium

_USUAL_SUFFIX = "amazonaws.com"
#: Hugging Face's images whose entry says nothing else.
_HUGGING_FACE_END = "cu110-ubuntu18.04"
#: From these versions on the images do not know P2 any more.
_WITHOUT_P2 = {"pytorch": (1, 13), "tensorflow": (2, 12)}
_OWN = "image takes any URI"


def image_uri(
    framework: Framework, region: str, instance_type: str, distribution: Distribution
) -> str:
    """The image that the SDK would take. Raises errors.InvalidRequest with the field."""
    name = family_of(framework, instance_type, distribution)
    family = known().families[name]
    processor = _processor(name, family, framework, instance_type)
    _no_p2(framework, instance_type)
    found = _of_python(_images(name, family, framework), framework)
    image, python = found
    tag = _tag(framework, name, processor, python, image, instance_type, distribution)
    registry = _registry(image, region)
    suffix = known().suffixes.get(region, _USUAL_SUFFIX)
    return f"{registry}.dkr.ecr.{region}.{suffix}/{image.repository}:{tag}"


def family_of(framework: Framework, instance_type: str, distribution: Distribution) -> str:
    """PyTorch has images of its own for Trainium, and for the model parallelism library's v2."""
    if framework.name == "pytorch" and is_trainium(instance_type):
        return "pytorch-neuron"
    if framework.name == "pytorch" and distribution.model_parallel == "v2":
        return "pytorch-smp"
    return framework.name


def _processor(name: str, family: Family, framework: Framework, instance_type: str) -> str:
    """The tag's word for what the image computes on."""
    if name.startswith("pytorch-neuron"):
        return name.removeprefix("pytorch-")
    processor = "gpu" if is_gpu(instance_type) else "cpu"
    if processor not in family.processors:
        raise _refused(
            "framework.name",
            f"AWS's images of {framework.name} for this are for GPUs, and {instance_type} has none",
        )
    return processor


def _no_p2(framework: Framework, instance_type: str) -> None:
    since = _WITHOUT_P2.get(framework.name)
    if instance_type.startswith("ml.p2.") and since and numbers(framework.version) >= since:
        raise _refused(
            "framework.version",
            f"AWS's images of {framework.name} do not run on P2 since {since[0]}.{since[1]}; "
            "use a newer instance type",
        )


def _images(name: str, family: Family, framework: Framework) -> list[Image]:
    bases = family.images.get(family.aliases.get(framework.version, framework.version))
    if bases is None:
        raise _unknown("framework.version", name, framework.version, _versions(family))
    if framework.base is None:
        return bases[""]
    wanted = f"{framework.base.name}{framework.base.version}"
    if wanted not in bases:
        raise _refused(
            "framework.base",
            f"no image of huggingface {framework.version} is built on {wanted}; there are "
            f"{', '.join(sorted(bases))}",
        )
    return bases[wanted]


def _versions(family: Family) -> list[str]:
    return [*family.images, *family.aliases]


def _of_python(found: Sequence[Image], framework: Framework) -> tuple[Image, str]:
    pythons = [(image, python) for image in found for python in image.pythons]
    wanted = framework.python_version
    fitting = [one for one in pythons if wanted in (None, one[1])]
    if len(fitting) != 1:
        have = ", ".join(python for _, python in pythons)
        asked = f"'{wanted}' is not there" if wanted else "is needed"
        raise _refused(
            "framework.pythonVersion",
            f"{asked}: images of {framework.name} {framework.version} have {have}",
        )
    return fitting[0]


def _tag(
    framework: Framework,
    name: str,
    processor: str,
    python: str,
    image: Image,
    instance_type: str,
    distribution: Distribution,
) -> str:
    end = image.end
    prefix = framework.version
    if framework.base is not None:
        prefix = f"{framework.base.version}-transformers{framework.version}"
        end = end or _HUGGING_FACE_END
    if name == "pytorch-smp":
        end = _cuda(framework.version, instance_type)
    tag = "-".join(part for part in (prefix, processor, python, end) if part)
    library = distribution.data_parallel or distribution.model_parallel
    if library or instance_type.startswith("ml.p4d."):
        more = known().tag_ends.get(f"{framework.name}-{tag}")
        return f"{tag}-{more}" if more else tag
    return tag


def _cuda(version: str, instance_type: str) -> str:
    """CUDA of the images with the model parallelism library's v2, as the SDK knows it."""
    if numbers(version) >= (2, 5):
        return "cu124"
    return "cu121" if numbers(version) >= (2, 1) or ".p5" in instance_type else "cu118"


def _registry(image: Image, region: str) -> str:
    accounts = known().registries[image.registries]
    if region not in accounts:
        raise _refused(
            "framework", f"AWS has no image {image.repository} in {region}, as far as is known here"
        )
    return accounts[region]


def _unknown(field: str, name: str, version: str, versions: Iterable[str]) -> errors.InvalidRequest:
    near = ", ".join(nearest(version, versions))
    return _refused(
        field,
        f"no image of {name} {version} is known here (by {known().source}, {known().date}); "
        f"the nearest are {near}",
    )


def nearest(version: str, versions: Iterable[str], count: int = 4) -> list[str]:
    """Those that are closest, in the order of versions."""
    place = _key(version)
    ordered = sorted(set(versions), key=_key)
    below = [one for one in ordered if _key(one) < place]
    above = [one for one in ordered if _key(one) > place]
    half = max(count // 2, count - len(above))
    return [*below[-half:], *above[: count - len(below[-half:])]]


def _key(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _refused(field: str, problem: str) -> errors.InvalidRequest:
    message = f"{problem}; {_OWN}"
    return errors.InvalidRequest(f"{field}: {message}", errors=[errors.FieldError(field, message)])
