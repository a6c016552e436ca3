"""The job that a worker process does for a recording."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from qnndbg.execute.sdk import activate, build_id, find_sdk
from qnndbg.pipeline.jobs import Job, Report


def work(payload: Mapping[str, object], report: Report) -> object:
    """Do a :class:`Job`."""
    job = msgspec.convert(payload, Job)
    report({"step": "start"})
    sdk = find_sdk(job.sdk or None)
    activate(sdk)
    # Not before: torch must be loaded ahead of the QNN libraries, and these ahead of ExecuTorch.
    from qnndbg.pipeline.lower import Lowering
    from qnndbg.pipeline.measure import measure

    lowered = job.lowered
    if lowered is None:
        lowered = Lowering(job, report).run(build_id(sdk))
        report({"lowered": msgspec.to_builtins(lowered)})
    for step in job.measures:
        if step != "htp-tapped" or lowered.tapped:
            report({"step": step})
            measure(Path(job.folder), step, lowered.samples)
    return None
