#include "common/base.h"

#include <stdlib.h>

#include "common/config.h"

/* Any lines as the command line; the words of --config are left out, since
 * reading files is not what is looked at. */

#define WORDS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	char *text = malloc(len + 1), *word, *rest;
	char *words[WORDS_MAX + 1] = { (char[]){ "memwald" } };
	char *env[1] = { NULL };
	struct config config;
	enum config_ask ask;
	int count = 1;

	MUST(text != NULL);
	memcpy(text, bytes, len);
	text[len] = '\0';
	rest = text;
	while (count < WORDS_MAX && (word = strsep(&rest, "\n")) != NULL) {
		if (strstr(word, "config") == NULL)
			words[count++] = word;
	}
	words[count] = NULL;
	if (!err_is(config_read(count, words, env, &config, &ask)) &&
	    ask == CONFIG_RUN)
		MUST(config.port <= 65535 && config.host != NULL);
	free(text);
	return 0;
}
