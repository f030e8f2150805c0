# common.bash - what the operator's scripts share: where the server is, how it is
# asked, and what --help prints (the comment at the top of each script).
# shellcheck shell=bash disable=SC2034
#
# Exit statuses are memwaldctl's: 0 done, 1 usage or refused, 2 nobody answers,
# 3 something is wrong, 4 not done in time, 5 another decided meanwhile.

set -euo pipefail

NAME=${0##*/}
where=()
dry_run=
words=()			# what is no option of all scripts

die()
{
	echo "$NAME: $2" >&2
	exit "$1"
}

say()
{
	echo "$*" >&2
}

# The comment at the top, without its marks.
usage()
{
	sed -n '2,/^$/s/^# \{0,1\}//p' "$0"
	cat <<END

  --admin-socket=PATH, --data-dir=DIR
                where the server is, as for memwaldctl
  --dry-run     say what would be done, change nothing
  --help        print this

memwaldctl is that of MEMWALDCTL, else of PATH; jq is needed. Exit statuses: 0
done, 1 usage or refused, 2 nobody answers, 3 something is wrong, 4 not done in
time, 5 another decided meanwhile. It is safe to run twice, and when interrupted.
END
}

# Takes the options that all have; the rest is left in words. No value or operand
# is empty, has white space in it, or looks like an option: the server would not
# take it for the name that is meant.
take_options()
{
	local word
	for word in "$@"; do
		case $word in
		--help) usage; exit 0 ;;
		--dry-run) dry_run=--dry-run ;;
		--admin-socket=* | --data-dir=*) where+=("$word") ;;
		'' | *[[:space:]]* | --*= | --*=-*)
			die 1 "'$word' is no word, or has no value; see --help" ;;
		*) words+=("$word") ;;
		esac
	done
	command -v jq >/dev/null || die 1 "jq is missing"
	command -v "${MEMWALDCTL:-memwaldctl}" >/dev/null ||
		die 1 "memwaldctl is not on PATH; or set MEMWALDCTL"
}

ctl()
{
	"${MEMWALDCTL:-memwaldctl}" "${where[@]}" "$@"
}

# The same, ending the script with its status unless that is 0.
must()
{
	local status=0
	ctl "$@" || status=$?
	[ $status = 0 ] || exit $status
}

number()
{
	case ${2:-x} in
	*[!0-9]*) die 1 "$1 is a number" ;;
	esac
	[ ${#2} -le 18 ] || die 1 "$1 is too large"
	echo $((10#$2))
}

# left_of UNTIL ORDINAL: how many stores have rows of it that are not folded. What
# keeps that from being known is said, and it is tried again; 4: not in time.
left_of()
{
	local answer status trouble last='' secs=10 rest
	while :; do
		rest=$(($1 - SECONDS))
		[ $rest -ge 1 ] || rest=1
		status=0
		answer=$(ctl left "$2" --json \
		    "--timeout=$((secs < rest ? secs : rest))" 2>&1) || status=$?
		case $status in
		0) jq .left <<<"$answer"; return ;;
		4) ;;
		*) say "$answer"; exit $status ;;
		esac
		trouble=$(jq -rR 'fromjson? | .error // empty' <<<"$answer")
		[ "$trouble" = "$last" ] || say "$2: $trouble"
		last=$trouble
		[ $SECONDS -lt "$1" ] || return 4
		# A registry may need longer than that.
		secs=$((secs * 2))
	done
}

# wait_folded SECS ORDINAL...: until nothing of them is left; 4: not in time.
wait_folded()
{
	local until=$((SECONDS + $1)) ordinal left total last='' status
	shift
	while :; do
		total=0
		for ordinal in "$@"; do
			status=0
			left=$(left_of "$until" "$ordinal") || status=$?
			case $status in
			0) total=$((total + left)) ;;
			4) return 4 ;;
			*) exit $status ;;
			esac
		done
		[ "$total" != "$last" ] &&
		    say "$total stores of $# ordinals are not folded yet"
		last=$total
		[ "$total" = 0 ] && return 0
		[ $SECONDS -lt $until ] || return 4
		sleep 0.5
	done
}
