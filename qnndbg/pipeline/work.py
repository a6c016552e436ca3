"""The job that a worker process does for a recording."""

from __future__ import annotations

from collections.abc import Mapping

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
    from qnndbg.pipeline.lower import lower_target
    from qnndbg.pipeline.measure import measure
    from qnndbg.pipeline.script import lower_in_script

    tasks = job.tasks
    if tasks is None:
        lower = lower_target if job.arguments is None else lower_in_script
        lowered = lower(job, report, build_id(sdk))
        tasks = tuple(task for one in lowered for task in one.tasks)
        report({"tasks": msgspec.to_builtins(tasks)})
    for number, task in enumerate(tasks):
        report({"step": task.step, "task": number})
        measure(task)
    return None
