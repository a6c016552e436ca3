#!/usr/bin/env bash
# Judges one lowering and writes what CI shows of it. Exits as `qnndbg check` does.
#   WHAT       a target or script, which is recorded first, or a recording
#   BASELINE   of it; POLICY, PRECISION, SOC: as the options of `qnndbg check`, empty for the default
#   OUT        folder for the recording and the reports
set -euo pipefail
: "${WHAT:?a target or a recording}" "${OUT:=qnndbg-report}"
mkdir -p "$OUT"
summary=${GITHUB_STEP_SUMMARY:-/dev/stdout}

options=()
[ -n "${BASELINE:-}" ] && options+=(--baseline "$BASELINE")
[ -n "${POLICY:-}" ] && options+=(--policy "$POLICY")
recorded=()
recording=$WHAT
if [ ! -d "$WHAT" ]; then
    recording=$OUT/recording.qnndbg
    recorded+=(-o "$recording" --quiet)
    [ -n "${PRECISION:-}" ] && recorded+=(--precision "$PRECISION")
    [ -n "${SOC:-}" ] && recorded+=(--soc "$SOC")
fi

status=0
COLUMNS=100 qnndbg check "${options[@]}" "${recorded[@]}" "$WHAT" >"$OUT/triage.txt" 2>"$OUT/errors.txt" || status=$?
cat "$OUT/triage.txt"
cat "$OUT/errors.txt" >&2
if [ "$status" -le 1 ]; then # judged: once more for other readers, which runs nothing
    for format in json md html junit; do
        qnndbg check "$recording" "${options[@]}" --format "$format" --report "$OUT/triage.${format/junit/xml}" 2>/dev/null || [ $? -eq 1 ]
    done
fi
if [ -d "$recording" ]; then # whatever came of it; a failed lowering has a report, too
    for format in html md sarif; do
        qnndbg show "$recording" --format "$format" -o "$OUT/report.$format" || echo "no complete report.$format" >&2
    done
fi

{
    echo "## qnndbg: $WHAT${PRECISION:+ at $PRECISION}"
    if [ "$status" -le 1 ]; then
        cat "$OUT/triage.md"
    else
        echo '```'
        cat "$OUT/triage.txt" "$OUT/errors.txt"
        echo '```'
    fi
    if [ -f "$OUT/report.md" ]; then
        echo '<details><summary>Report</summary>'
        echo
        cat "$OUT/report.md"
        echo
        echo '</details>'
    fi
} >>"$summary"
exit "$status"
