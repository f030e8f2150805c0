#include "common/base.h"

#include <ctype.h>

#include "master/admin.h"
#include "master/call.h"
#include "ops/manual.h"

static const struct command {
	const char *name, *operands;
	uint32_t options;		/* beside --json: bits */
	uint32_t seconds;
	const char *help;
} commands[] = {
#define ADMIN(symbol, function, name, operands, options, when, seconds, help) \
	{ name, operands, options, seconds, help },
#include "master/admin.def"
#undef ADMIN
};

static const struct { const char *name, *value, *help; } options[] = {
#define ADMIN_OPTION(symbol, name, value, help) { name, value, help },
#include "master/admin.def"
#undef ADMIN_OPTION
};

static const struct { int status; const char *help; } exits[] = {
#define ADMIN_EXIT(symbol, status, line, help) { status, help },
#include "master/admin.def"
#undef ADMIN_EXIT
};

/* Of memwaldctl itself, before the command. */
static const struct { const char *name, *value, *help; } own[] = {
	{ "admin-socket", "PATH", "the server's socket" },
	{ "data-dir", "DIR", "the server's data directory: its socket is "
	    "admin.sock in it" },
	{ "help", "", "print this, or what follows a command; and exit" },
	{ "version", "", "print the version" },
	{ "help-man", "", "print the manual page" },
	{ "completion", "", "print the completion of bash" },
};

static const char *const where =
    "The socket is --admin-socket, else MEMWALD_ADMIN_SOCKET, else admin.sock "
    "in --data-dir, MEMWALD_DATA_DIR or ./lance-data.";

static bool
has_option(const struct command *c, uint32_t option)
{
	return option == ADMIN_OPTION_JSON || (c->options >> option & 1) != 0;
}

static bool
is_documented(size_t command)
{
#ifdef MEMWALD_FAULTS
	return command != ADMIN_FAULT;
#else
	(void)command;
	return true;
#endif
}

/* "[--json] [--kind=rollout|datagen|generic]", each behind a blank. */
static void
put_options(FILE *to, const struct command *c)
{
	uint32_t i;

	for (i = 0; i < ADMIN_OPTION_COUNT; i++) {
		if (has_option(c, i))
			fprintf(to, " [--%s%s%s]", options[i].name,
			    *options[i].value != '\0' ? "=" : "",
			    options[i].value);
	}
}

static void
help_all(FILE *to)
{
	size_t i;

	fprintf(to, "usage: memwaldctl [--admin-socket=PATH | --data-dir=DIR] "
	    "COMMAND [OPTION]... [OPERAND]...\n\nCommands:\n");
	for (i = 0; i < ARRAY_LEN(commands); i++)
		fprintf(to, "  %s%s%s\n      %s\n", commands[i].name,
		    *commands[i].operands != '\0' ? " " : "",
		    commands[i].operands, commands[i].help);
	fprintf(to, "\nOptions of commands (which has which: memwaldctl COMMAND "
	    "--help):\n");
	for (i = 0; i < ARRAY_LEN(options); i++)
		fprintf(to, "  --%s%s%s\n      %s\n", options[i].name,
		    *options[i].value != '\0' ? "=" : "", options[i].value,
		    options[i].help);
	fprintf(to, "\nOptions before the command:\n");
	for (i = 0; i < ARRAY_LEN(own); i++)
		fprintf(to, "  --%s%s%s\n      %s\n", own[i].name,
		    *own[i].value != '\0' ? "=" : "", own[i].value,
		    own[i].help);
	fprintf(to, "\n%s\n\nExit status:\n", where);
	for (i = 0; i < ARRAY_LEN(exits); i++)
		fprintf(to, "  %d  %s\n", exits[i].status, exits[i].help);
}

bool
manual_help(FILE *to, const char *name)
{
	const struct command *c = commands;
	uint32_t i;

	if (name == NULL) {
		help_all(to);
		return true;
	}
	while (c < commands + ARRAY_LEN(commands) &&
	    strcmp(c->name, name) != 0)
		c++;
	if (c == commands + ARRAY_LEN(commands))
		return false;
	fprintf(to, "usage: memwaldctl %s", c->name);
	put_options(to, c);
	fprintf(to, "%s%s\n\n%s.\n", *c->operands != '\0' ? " " : "",
	    c->operands, c->help);
	for (i = 0; i < ADMIN_OPTION_COUNT; i++) {
		if (has_option(c, i))
			fprintf(to, "  --%s%s%s\n      %s\n", options[i].name,
			    *options[i].value != '\0' ? "=" : "",
			    options[i].value, options[i].help);
	}
	return true;
}

/* Text in roff: a hyphen would become a dash. */
static void
roff(FILE *to, const char *s)
{
	for (; *s != '\0'; s++) {
		if (*s == '-' || *s == '\\')
			fputc('\\', to);
		fputc(*s, to);
	}
}

static void
roff_option(FILE *to, const char *name, const char *value)
{
	fprintf(to, "\\-\\-");
	roff(to, name);
	if (*value != '\0') {
		fprintf(to, "\\fR=\\fI");
		roff(to, value);
	}
	fprintf(to, "\\fR");
}

static void
page_commands(FILE *to)
{
	size_t i;
	uint32_t k;

	for (i = 0; i < ARRAY_LEN(commands); i++) {
		const struct command *c = &commands[i];

		if (!is_documented(i))
			continue;
		fprintf(to, ".TP\n\\fB");
		roff(to, c->name);
		fprintf(to, "\\fR");
		for (k = 0; k < ADMIN_OPTION_COUNT; k++) {
			if (!has_option(c, k))
				continue;
			fprintf(to, " [\\fB");
			roff_option(to, options[k].name, options[k].value);
			fprintf(to, "]");
		}
		if (*c->operands != '\0') {
			fprintf(to, " \\fI");
			roff(to, c->operands);
			fprintf(to, "\\fR");
		}
		fprintf(to, "\n");
		roff(to, c->help);
		fprintf(to, ".\n");
	}
}

void
manual_page(FILE *to)
{
	size_t i;

	fprintf(to, ".\\\" Written by memwaldctl --help-man: do not edit.\n"
	    ".TH MEMWALDCTL 8\n.SH NAME\nmemwaldctl \\- ask and steer a "
	    "running memwald\n.SH SYNOPSIS\n.B memwaldctl\n"
	    "[\\fB\\-\\-admin\\-socket\\fR=\\fIPATH\\fR | "
	    "\\fB\\-\\-data\\-dir\\fR=\\fIDIR\\fR] \\fIcommand\\fR "
	    "[\\fIoption\\fR]... [\\fIoperand\\fR]...\n"
	    ".SH DESCRIPTION\nAsks the master of a running server and prints "
	    "what it says. Whoever answers\non the socket is the server: no "
	    "pid is read and nobody is signalled.\n");
	roff(to, where);
	fprintf(to, "\nProgress goes to standard error: a bar on a terminal, "
	    "plain lines otherwise,\nnothing with \\-\\-json.\n.SH COMMANDS\n");
	page_commands(to);
	fprintf(to, ".SH OPTIONS OF COMMANDS\n");
	for (i = 0; i < ARRAY_LEN(options); i++) {
		fprintf(to, ".TP\n\\fB");
		roff_option(to, options[i].name, options[i].value);
		fprintf(to, "\n");
		roff(to, options[i].help);
		fprintf(to, ".\n");
	}
	fprintf(to, ".SH OPTIONS BEFORE THE COMMAND\n");
	for (i = 0; i < ARRAY_LEN(own); i++) {
		fprintf(to, ".TP\n\\fB");
		roff_option(to, own[i].name, own[i].value);
		fprintf(to, "\n");
		roff(to, own[i].help);
		fprintf(to, ".\n");
	}
	fprintf(to, ".SH EXIT STATUS\n");
	for (i = 0; i < ARRAY_LEN(exits); i++) {
		fprintf(to, ".TP\n%d\n", exits[i].status);
		roff(to, exits[i].help);
		fprintf(to, ".\n");
	}
	fprintf(to, ".SH SEE ALSO\nmemwald(8)\n");
}

/* The words of "a|b|c" or "[a|b|c]", with blanks between; none of those in
 * capitals, which stand for others. */
static void
put_choices(FILE *to, const char *words)
{
	const char *before = "";
	size_t len;

	if (strchr(words, '|') == NULL)
		return;
	for (; *words != '\0'; words += len + (words[len] != '\0')) {
		len = strcspn(words, "[|] ");
		if (len == 0 || isupper((unsigned char)*words))
			continue;
		fprintf(to, "%s%.*s", before, (int)len, words);
		before = " ";
	}
}

static void
complete_command(FILE *to, const struct command *c)
{
	uint32_t i;

	fprintf(to, "\t%s)\n\t\toptions='--help", c->name);
	for (i = 0; i < ADMIN_OPTION_COUNT; i++) {
		if (has_option(c, i))
			fprintf(to, " --%s%s", options[i].name,
			    *options[i].value != '\0' ? "=" : "");
	}
	fprintf(to, "'\n\t\toperands='");
	put_choices(to, c->operands);
	fprintf(to, "' ;;\n");
}

void
manual_completion(FILE *to)
{
	size_t i;

	fprintf(to, "# bash completion of memwaldctl; written by memwaldctl "
	    "--completion: do not edit.\n"
	    "# shellcheck shell=bash\n\n_memwaldctl()\n{\n"
	    "\tlocal word=${COMP_WORDS[COMP_CWORD]} command='' i options "
	    "operands\n\n\tCOMPREPLY=()\n"
	    "\t# \"=\" is a word of its own: --kind = value\n"
	    "\tcase ${COMP_WORDS[COMP_CWORD-1]} in\n"
	    "\t=) i=${COMP_WORDS[COMP_CWORD-2]} ;;\n"
	    "\t*) i=${COMP_WORDS[COMP_CWORD-1]} ;;\n\tesac\n"
	    "\t[ \"$word\" = = ] && word=''\n\tcase $i in\n"
	    "\t--admin-socket | --data-dir)\n"
	    "\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
	    "\t\treturn ;;\n");
	for (i = 0; i < ARRAY_LEN(options); i++) {
		if (strchr(options[i].value, '|') == NULL)
			continue;
		fprintf(to, "\t--%s)\n\t\tmapfile -t COMPREPLY < <(compgen -W '",
		    options[i].name);
		put_choices(to, options[i].value);
		fprintf(to, "' -- \"$word\")\n\t\treturn ;;\n");
	}
	fprintf(to, "\tesac\n\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	    "\t\tcase ${COMP_WORDS[i]} in\n"
	    "\t\t--admin-socket | --data-dir)\n"
	    "\t\t\t((i++))\n"
	    "\t\t\t[ \"${COMP_WORDS[i]}\" = = ] && ((i++)) ;;\n"
	    "\t\t-*) ;;\n\t\t*) command=${COMP_WORDS[i]}; break ;;\n"
	    "\t\tesac\n\tdone\n\tcase $command in\n\t'')\n\t\toptions='");
	for (i = 0; i < ARRAY_LEN(own); i++)
		fprintf(to, "%s--%s%s", i > 0 ? " " : "", own[i].name,
		    *own[i].value != '\0' ? "=" : "");
	fprintf(to, "'\n\t\toperands='");
	for (i = 0; i < ARRAY_LEN(commands); i++) {
		if (is_documented(i))
			fprintf(to, "%s%s", i > 0 ? " " : "",
			    commands[i].name);
	}
	fprintf(to, "' ;;\n");
	for (i = 0; i < ARRAY_LEN(commands); i++) {
		if (is_documented(i))
			complete_command(to, &commands[i]);
	}
	fprintf(to, "\t*)\n\t\treturn ;;\n\tesac\n"
	    "\tmapfile -t COMPREPLY < <(compgen -W \"$options $operands\" "
	    "-- \"$word\")\n"
	    "\tcase ${COMPREPLY[0]} in\n"
	    "\t*=) compopt -o nospace ;;\n\tesac\n}\n\n"
	    "complete -F _memwaldctl memwaldctl\n");
}
