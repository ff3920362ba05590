#!/bin/sh
# Lets two builds of the runner take turns on the farm: turns.sh BASE_RUNNER NEW_RUNNER ROUNDS OUT MODEL...
# With SUSPECTS=FILE, only the items of that file (`polychip farm compare --suspects`), each on the boards that measured it.
# Leaves OUT/base/1 ... OUT/base/ROUNDS and OUT/new/... for `polychip farm compare OUT/base OUT/new`.
set -eu
base=$1 new=$2 rounds=$3 out=$4
shift 4
turn() { # SIDE RUNNER ROUND MODEL...
  side=$1 runner=$2 round=$3
  shift 3
  if [ -n "${SUSPECTS:-}" ]; then set -- --suspects "$SUSPECTS" "$@"; else set -- --jobs bench "$@"; fi
  # a board that is lost or an item that fails is in the records: comparing says so
  polychip farm run "$@" --farm "${FARM:-farm.toml}" --runner "$runner" \
    --id "$side-$round" --out "$out/$side/$round" || test -f "$out/$side/$round/run.json"
}
round=1
while [ "$round" -le "$rounds" ]; do
  # who is first changes from round to round
  if [ $((round % 2)) -eq 1 ]; then
    turn base "$base" "$round" "$@"
    turn new "$new" "$round" "$@"
  else
    turn new "$new" "$round" "$@"
    turn base "$base" "$round" "$@"
  fi
  round=$((round + 1))
done
