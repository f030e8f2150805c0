# bash completion of memwaldctl; written by memwaldctl --completion: do not edit.
# shellcheck shell=bash

_memwaldctl()
{
	local word=${COMP_WORDS[COMP_CWORD]} command='' i options operands

	COMPREPLY=()
	# "=" is a word of its own: --kind = value
	case ${COMP_WORDS[COMP_CWORD-1]} in
	=) i=${COMP_WORDS[COMP_CWORD-2]} ;;
	*) i=${COMP_WORDS[COMP_CWORD-1]} ;;
	esac
	[ "$word" = = ] && word=''
	case $i in
	--admin-socket | --data-dir)
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		return ;;
	--kind)
		mapfile -t COMPREPLY < <(compgen -W 'rollout datagen generic' -- "$word")
		return ;;
	esac
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--admin-socket | --data-dir)
			((i++))
			[ "${COMP_WORDS[i]}" = = ] && ((i++)) ;;
		-*) ;;
		*) command=${COMP_WORDS[i]}; break ;;
		esac
	done
	case $command in
	'')
		options='--admin-socket= --data-dir= --help --version --help-man --completion'
		operands='status workers stores shards ordinals jobs seal fold reassign drain undrain adopt left retire resize reload log-level shutdown' ;;
	status)
		options='--help --json --check'
		operands='' ;;
	workers)
		options='--help --json'
		operands='' ;;
	stores)
		options='--help --json --kind='
		operands='' ;;
	shards)
		options='--help --json --kind='
		operands='' ;;
	ordinals)
		options='--help --json --history'
		operands='' ;;
	jobs)
		options='--help --json'
		operands='' ;;
	seal)
		options='--help --json --kind= --all --timeout='
		operands='' ;;
	fold)
		options='--help --json --kind= --all --timeout='
		operands='' ;;
	reassign)
		options='--help --json --timeout= --dry-run --if-version= --if-gone'
		operands='' ;;
	drain)
		options='--help --json --timeout= --dry-run'
		operands='instance' ;;
	undrain)
		options='--help --json --timeout= --dry-run'
		operands='instance' ;;
	adopt)
		options='--help --json --timeout= --dry-run'
		operands='' ;;
	left)
		options='--help --json --timeout='
		operands='' ;;
	retire)
		options='--help --json --timeout= --dry-run'
		operands='' ;;
	resize)
		options='--help --json --timeout='
		operands='' ;;
	reload)
		options='--help --json'
		operands='' ;;
	log-level)
		options='--help --json'
		operands='error warn info debug' ;;
	shutdown)
		options='--help --json --no-wait'
		operands='' ;;
	*)
		return ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$options $operands" -- "$word")
	case ${COMPREPLY[0]} in
	*=) compopt -o nospace ;;
	esac
}

complete -F _memwaldctl memwaldctl
