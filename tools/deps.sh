#!/bin/sh
# deps.sh SET...: installs what is missing on a Debian 12, and does nothing
# when all of it is there.
#
#	build	compiler and libraries (make, make run)
#	interop	node, for LanceDB and apache-arrow (make try-lancedb)
#	check	what the tests need besides (make check)
#	fuzz	clang, for libFuzzer (make fuzz)
#
# A word is a package, or command=package where another source than Debian may
# have brought the command.
set -eu

wanted=
for set in "$@"; do
	case $set in
	build)	wanted="$wanted gcc g++ libc6-dev liburing-dev libcjson-dev
		libprotobuf-c-dev protobuf-c-compiler uuid-dev libxxhash-dev
		libroaring-dev libzstd-dev libfast-float-dev
		libcurl4-openssl-dev
		curl=curl ca-certificates" ;;
	interop) wanted="$wanted node=nodejs npm=npm" ;;
	check)	wanted="$wanted libcmocka-dev libcjson-dev python3=python3
		shellcheck=shellcheck jq=jq git=git strace=strace spin=spin
		postgresql-15 nginx=nginx haproxy=haproxy
		systemd-analyze=systemd" ;;
	fuzz)	wanted="$wanted clang=clang" ;;
	*)	echo "deps.sh: unknown set $set" >&2; exit 2 ;;
	esac
done

missing=
for word in $wanted; do
	package=${word#*=}
	if [ "$word" != "$package" ]; then
		command -v "${word%%=*}" >/dev/null || missing="$missing $package"
	else
		dpkg-query -W -f='${Status}' "$package" 2>/dev/null |
		    grep -q '^install ok' || missing="$missing $package"
	fi
done
[ -n "$missing" ] || exit 0

sudo=
if [ "$(id -u)" != 0 ]; then
	sudo=sudo
	command -v sudo >/dev/null || {
		echo "deps.sh: missing$missing; run as root or install sudo" >&2
		exit 1
	}
fi

# Servers among the tests' tools (nginx, PostgreSQL) are wanted as programs: the
# policy file, Debian's own switch for it, keeps apt from starting them.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap '$sudo rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' | $sudo tee "$policy" >/dev/null
	$sudo chmod +x "$policy"
fi

echo "deps.sh: installing$missing"
$sudo apt-get update -qq
# shellcheck disable=SC2086 # a list of words
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    --no-install-recommends -o Dpkg::Options::=--force-confold $missing >/dev/null
