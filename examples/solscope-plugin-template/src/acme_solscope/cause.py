"""A cause: the ACME license server answers late, which shows as one long section."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause
from solscope.diagnose.evidence import host
from solscope.diagnose.evidence.base import Answer, in_families
from solscope.diagnose.findings.findings import Findings


def waits_for_license(f: Findings) -> Answer:
    """The section that grew most is the one in which the license is checked."""
    section = host.worst_section(f)
    if section is None:
        return Answer(None, "no annotated section grew")
    return Answer(section.name == "acme_license", f"section {section.name!r} grew most")


CAUSE = Cause(
    id="acme_license",
    family="software",
    title="the ACME license server answers late",
    summary="Every step asks the license server; the section `acme_license` takes longer.",
    strength=3.0,
    required=(host.host_grew, host.in_one_section, waits_for_license),
    explains=in_families(*host.HOST),
    confirm="measure the answer time of the license server",
)
