#!/bin/sh
# run.sh: prints the session of README.md, then serves ./data (make run).
set -eu
cd "$(dirname "$0")/.."

echo "Serving on http://127.0.0.1:3000 with data in ./data; stop with Ctrl-C."
echo "In another terminal:"
echo
# The commands of the README's first session, without what they answer.
# shellcheck disable=SC2016 # no expansion is meant
sed -n '/^```console$/,/^```$/s/^[$>] /    /p; /^```$/q' README.md
echo
echo "After that, 'make try-lancedb' opens the table with LanceDB."
echo
exec build/memwald --host=127.0.0.1 --port=3000 --data-dir=./data "$@"
