"""The rules: what each says, and what to do about it. docs/reference/rules.md has a page section for each."""

from __future__ import annotations

from typing import NamedTuple

from qnndbg.model.result import Cause


class Rule(NamedTuple):
    """A stable id, a title, and what helps."""

    id: str
    title: str
    help: str


RULES = (
    Rule("QD101", "values overflow half floats", "Rescale them to stay below 65504, and scale back behind."),
    Rule(
        "QD102", "values are flushed by half floats", "Scale what is below 6.1e-05 up, or raise an epsilon."
    ),
    Rule("QD103", "an op errs by more than rounding", "Write it in other ops, or keep it off the HTP."),
    Rule("QD104", "a range clips", "Calibrate with inputs like these; then use a min-max observer."),
    Rule("QD105", "a range is too wide", "Calibrate with inputs like these, so that the range fits."),
    Rule(
        "QD106",
        "an outlier channel takes the range",
        "Quantise a weight per channel, an activation to 16 bits.",
    ),
    Rule("QD107", "rounding is magnified", "Rewrite what follows, so that no small difference decides."),
    Rule(
        "QD108",
        "rounding decides a comparison",
        "Leave a margin around the threshold, or use a finer format.",
    ),
    Rule("QD109", "a format has too few digits", "Rescale or offset the values, or give them more bits."),
    Rule("QD110", "a running sum stagnates", "Sum in parts, so that no sum outgrows what is added."),
    Rule(
        "QD111",
        "integers are computed in half floats",
        "Compute them on the CPU; below 2048 all but divisions are exact.",
    ),
    Rule("QD112", "not a finite number", "Find what divides by zero or overflows in the float model first."),
    Rule("QD113", "the HTP fuses a clip away", "Widen the range that clips; the HTP is the better one here."),
    Rule(
        "QD114",
        "an input or constant is not held as it is",
        "Rescale it, or give a weight one scale per channel.",
    ),
    Rule(
        "QD115",
        "a part of an output is lost",
        "Return it apart from what is larger, so that it has a scale of its own, or use 16 bits.",
    ),
    Rule(
        "QD201",
        "an output is not what was computed",
        "Cast an int64 output to int32 in the model, or return another form of it.",
    ),
    Rule("QD202", "int64 values do not fit into int32", "Keep them below 2147483648, or on the CPU."),
    Rule(
        "QD203", "the program's I/O dtype is not the model's", "Feed and read the program by its own dtypes."
    ),
    Rule(
        "QD204", "QNN's encoding is not the graph's", "Report it: the builder of the op changed the encoding."
    ),
    Rule("QD205", "an encoding changes on the way", "Look at the pass that changed it."),
    Rule("QD206", "an input is not contiguous", "Hand it over contiguous: x.contiguous()."),
    Rule("QD207", "a value is requantised", "Let the ops share one observer, if the loss matters."),
    Rule("QD208", "an encoding does not fit its tensor", "Quantise it per tensor, and report it."),
    Rule("QD301", "a constant has no value in the partition", "Run lift_constant_tensor_pass before."),
    Rule("QD302", "an op stays on the CPU", "Write it with ops that the backend has, or accept the border."),
    Rule(
        "QD303", "nothing is delegated", "See the reasons of the fallbacks; dynamic shapes are a usual one."
    ),
    Rule("QD304", "several partitions", "Each border costs a copy; the fallbacks say what splits them."),
    Rule("QD305", "a state has no start value", "Write the start value with the first call."),
    Rule("QD401", "a pass changes the numbers", "Take it out of passes_job, if it is there; report it."),
    Rule("QD402", "a pass fails", "The recording has the graph that it got."),
    Rule(
        "QD403", "passes claim to modify and change nothing", "Nothing to do: what a pass says tells little."
    ),
    Rule(
        "QD404",
        "a pass changes the graph and does not say so",
        "Report it: a pass manager may skip what follows.",
    ),
    Rule("QD501", "the dump changes the result", "Trust the production build; layers show the other one."),
    Rule("QD502", "repeated runs differ", "Look for a state that is not reset, or an uninitialised one."),
    Rule("QD503", "the quantised model is already wrong", "Mend the quantisation before the lowering."),
    Rule("QD504", "values are not compared", "The reasons are listed under coverage."),
    Rule("QD505", "a dump is wrong and the output right", "Nothing to do: the output is used in its place."),
)

CATALOG = {rule.id: rule for rule in RULES}

CAUSE_RULES: dict[Cause, str] = {
    "overflow": "QD101",
    "flushed": "QD102",
    "kernel": "QD103",
    "builder": "QD114",
    "clipped": "QD104",
    "wide range": "QD105",
    "outlier channel": "QD106",
    "amplified": "QD107",
    "rounding": "QD107",
    "flipped": "QD108",
    "precision": "QD109",
    "few bits": "QD109",
    "stagnation": "QD110",
    "state": "QD305",
    "fused": "QD113",
    "integers": "QD111",
}
"""A source's cause to the rule about it."""
