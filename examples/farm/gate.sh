#!/bin/sh
# The gate of a pull request: gate.sh BASE_RUNNER NEW_RUNNER MODELS_FOLDER OUT
# Six pairs of measurements of all models; what may be slower is measured again, in as many pairs as should decide it (12 to 100: a noisy
# board needs more), which are judged by themselves. Exit code 1 for a regression.
set -eu
base=$1 new=$2 models=$3 out=$4
here=$(dirname "$0")
"$here/turns.sh" "$base" "$new" 6 "$out/all" "$models"/*.onnx
code=0
polychip farm compare "$out/all/base" "$out/all/new" --fail-on slower \
  --markdown "$out/summary.md" --suspects "$out/suspects.json" || code=$?
if [ "$(cat "$out/suspects.json")" != "[]" ]; then
  rounds=$(sed -n 's/^ *"rounds": \([0-9]*\).*/\1/p' "$out/suspects.json" | sort -n | tail -n 1)
  SUSPECTS="$out/suspects.json" "$here/turns.sh" "$base" "$new" "$rounds" "$out/again" "$models"/*.onnx
  again=0
  polychip farm compare "$out/again/base" "$out/again/new" --fail-on slower --markdown "$out/again.md" || again=$?
  printf '\n## Suspicious items, measured again\n\n' >>"$out/summary.md"
  cat "$out/again.md" >>"$out/summary.md"
  [ "$again" -eq 0 ] || code=$again
fi
polychip farm report "$out/all/base" "$out/all/new" --against "$out/all/base" \
  --html "$out/farm.html" --junit "$out/junit.xml" >/dev/null
exit "$code"
