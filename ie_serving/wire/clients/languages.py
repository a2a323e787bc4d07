"""Writes programs that send one request and print the reply, in several languages.

Each program needs only the standard library of its language, or curl. It ends with code 0 after a
reply of 200; otherwise it prints status and text on standard error, and ends with another code. The
environment variable AUTHORIZATION, if set, becomes the header of this name: no program holds
credentials.

Text from a model or a caller is written only into string literals. URLs and bodies are ASCII,
without control characters, so that one way of quoting is right in all languages but the shell.
"""

import json
import shlex
from collections.abc import Callable, Mapping
from string import Template
from typing import Final

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.wire.clients.call import JsonPost
from ie_serving.wire.clients.sample import FileOf, Filled

LONGEST_LITERAL: Final = 8_000
"""Characters of one string literal: Java takes 65,535 bytes, and editors like shorter lines."""

_PYTHON = Template('''\
#!/usr/bin/env python3
"""Ask the model once and print its answer. Needs Python 3 alone: python3 client.py"""

${imports}import os
import sys
import urllib.error
import urllib.request

URL = $url
$filled

def main():
    body = $body
    headers = {"Content-Type": "application/json"}
    if os.environ.get("AUTHORIZATION"):
        headers["Authorization"] = os.environ["AUTHORIZATION"]
    request = urllib.request.Request(URL, body.encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            print(reply.read().decode())
    except urllib.error.HTTPError as error:
        sys.exit(f"HTTP {error.code}: {error.read().decode(errors='replace')}")
    except OSError as error:
        sys.exit(f"{URL}: {error}")


if __name__ == "__main__":
    main()
''')
_PYTHON_FILLED = '''

def filled(value, *sizes):
    """Write the JSON of lists of these sizes, with one value everywhere."""
    for size in reversed(sizes):
        value = "[" + ",".join([value] * size) + "]"
    return value
'''
_PYTHON_FILE = '''

def encoded(path):
    """Read a file as base64, the form in which JSON carries bytes."""
    with open(path, "rb") as file:
        return base64.b64encode(file.read()).decode()
'''

_BASH = Template("""\
#!/usr/bin/env bash
# Ask the model once and print its answer. Needs curl alone: bash client.sh
set -euo pipefail

url=$url
$filled
headers=(-H 'Content-Type: application/json')
if [ -n "$${AUTHORIZATION:-}" ]; then
  headers+=(-H "Authorization: $$AUTHORIZATION")
fi

{
$body
} | curl --globoff --silent --show-error --fail-with-body --max-time 60 \\
  "$${headers[@]}" --data-binary @- "$$url"
""")
_BASH_FILLED = """
# The JSON of lists of these sizes, with one value everywhere: filled VALUE SIZE...
filled() {
  local text=$1 row at i
  shift
  for ((at = $#; at > 0; at--)); do
    row=
    for ((i = 0; i < ${!at}; i++)); do row+=$text,; done
    text="[${row%,}]"
  done
  printf '%s' "$text"
}
"""
_BASH_FILE = """
# A file as base64, the form in which JSON carries bytes: encoded FILE
encoded() { base64 < "$1" | tr -d '\\n'; }
"""

_JAVASCRIPT = Template("""\
// Ask the model once and print its answer. Needs Node.js 18 or later alone: node client.js
const url = $url;
$filled
async function main() {
  const body = $body;
  const headers = { "Content-Type": "application/json" };
  if (process.env.AUTHORIZATION) headers.Authorization = process.env.AUTHORIZATION;
  const reply = await fetch(url, { method: "POST", headers, body });
  const text = await reply.text();
  if (!reply.ok) throw new Error(`HTTP $${reply.status}: $${text}`);
  console.log(text);
}

main().catch((error) => {
  console.error(error.cause ? `$${error.message}: $${error.cause.message}` : error.message);
  process.exitCode = 1;
});
""")
_JAVASCRIPT_FILLED = """
// The JSON of lists of these sizes, with one value everywhere.
function filled(value, ...sizes) {
  return sizes.reduceRight((text, size) => `[${Array(size).fill(text).join(",")}]`, value);
}
"""
_JAVASCRIPT_FILE = """
// A file as base64, the form in which JSON carries bytes.
function encoded(path) {
  return require("node:fs").readFileSync(path, "base64");
}
"""

_GO = Template("""\
// Ask the model once and print its answer. Needs Go's standard library alone: go run client.go
package main

import (
${imports}	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

const url = $url
$filled
func fail(what ...any) {
	fmt.Fprintln(os.Stderr, what...)
	os.Exit(1)
}

func main() {
	body := $body
	request, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		fail(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if authorization := os.Getenv("AUTHORIZATION"); authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	client := http.Client{Timeout: 60 * time.Second}
	reply, err := client.Do(request)
	if err != nil {
		fail(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		fail(err)
	}
	if reply.StatusCode != http.StatusOK {
		fail("HTTP", reply.StatusCode, string(text))
	}
	fmt.Println(string(text))
}
""")
_GO_FILLED = """
// filled writes the JSON of lists of these sizes, with one value everywhere.
func filled(value string, sizes ...int) string {
	for i := len(sizes) - 1; i >= 0; i-- {
		value = "[" + strings.TrimSuffix(strings.Repeat(value+",", sizes[i]), ",") + "]"
	}
	return value
}
"""
_GO_FILE = """
// encoded reads a file as base64, the form in which JSON carries bytes.
func encoded(path string) string {
	bytes, err := os.ReadFile(path)
	if err != nil {
		fail(err)
	}
	return base64.StdEncoding.EncodeToString(bytes)
}
"""

_JAVA = Template("""\
// Ask the model once and print its answer. Needs Java 11 or later alone: java Client.java
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Collections;

public class Client {
    static final String URL = $url;
$filled
    public static void main(String[] arguments) throws Exception {
        String body = $body;
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(URL))
            .version(HttpClient.Version.HTTP_1_1)
            .timeout(Duration.ofSeconds(60))
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(body));
        String authorization = System.getenv("AUTHORIZATION");
        if (authorization != null && !authorization.isEmpty()) {
            request.header("Authorization", authorization);
        }
        HttpResponse<String> reply =
            HttpClient.newHttpClient().send(request.build(), HttpResponse.BodyHandlers.ofString());
        if (reply.statusCode() != 200) {
            System.err.println("HTTP " + reply.statusCode() + ": " + reply.body());
            System.exit(1);
        }
        System.out.println(reply.body());
    }
}
""")
_JAVA_FILLED = """
    /** Writes the JSON of lists of these sizes, with one value everywhere. */
    static String filled(String value, int... sizes) {
        for (int i = sizes.length - 1; i >= 0; i--) {
            value = "[" + String.join(",", Collections.nCopies(sizes[i], value)) + "]";
        }
        return value;
    }
"""
_JAVA_FILE = """
    /** Reads a file as base64, the form in which JSON carries bytes. */
    static String encoded(String path) throws Exception {
        byte[] bytes = java.nio.file.Files.readAllBytes(java.nio.file.Path.of(path));
        return java.util.Base64.getEncoder().encodeToString(bytes);
    }
"""


def program(language: str, call: JsonPost) -> str:
    """Write the program that makes a call.

    Raises:
        InvalidRequest: there is none in this language.
    """
    write = WRITERS.get(ALIASES.get(language, language))
    if write is None:
        raise InvalidRequest(
            f"no client in language {language[:40]!r}; expected one of {', '.join(WRITERS)}"
        )
    return write(call)


def _python(call: JsonPost) -> str:
    body = " + ".join(_terms(call, repr))
    return _PYTHON.substitute(
        imports="import base64\n" if _has(call, FileOf) else "",
        url=repr(call.url),
        body=body,
        filled=_functions(call, _PYTHON_FILLED, _PYTHON_FILE),
    )


def _bash(call: JsonPost) -> str:
    url, lines = shlex.quote(call.url), "\n".join(map(_line, call.body))
    return _BASH.substitute(url=url, body=lines, filled=_functions(call, _BASH_FILLED, _BASH_FILE))


def _line(piece: str | Filled | FileOf) -> str:
    """Write the command by which bash prints a piece."""
    if isinstance(piece, Filled):
        return f"  filled {shlex.quote(piece.value)} {' '.join(map(str, piece.sizes))}"
    if isinstance(piece, FileOf):
        return f"  encoded {shlex.quote(piece.path)}"
    return f"  printf '%s' {shlex.quote(piece)}"


def _javascript(call: JsonPost) -> str:
    body = " + ".join(_terms(call, repr))
    filled = _functions(call, _JAVASCRIPT_FILLED, _JAVASCRIPT_FILE)
    return _JAVASCRIPT.substitute(url=repr(call.url), body=body, filled=filled)


def _go(call: JsonPost) -> str:
    body = " + ".join(_terms(call, _raw))
    return _GO.substitute(
        imports='\t"encoding/base64"\n' if _has(call, FileOf) else "",
        url=_raw(call.url),
        body=body,
        filled=_functions(call, _GO_FILLED, _GO_FILE),
    )


def _java(call: JsonPost) -> str:
    terms = _terms(call, json.dumps)
    # Joined when it runs: the compiler would make one literal of them, which may be too long.
    body = terms[0] if len(terms) == 1 else f'String.join("", {", ".join(terms)})'
    filled = _functions(call, _JAVA_FILLED, _JAVA_FILE)
    return _JAVA.substitute(url=json.dumps(call.url), body=body, filled=filled)


def _raw(text: str) -> str:
    """Quote for Go: as it is, where that can be."""
    return json.dumps(text) if "`" in text else f"`{text}`"


def _terms(call: JsonPost, quote: Callable[[str], str]) -> list[str]:
    """Write the body as terms of a sum: literals, and calls of `filled`."""
    terms = []
    for piece in call.body:
        if isinstance(piece, Filled):
            terms.append(f"filled({quote(piece.value)}, {', '.join(map(str, piece.sizes))})")
        elif isinstance(piece, FileOf):
            terms.append(f"encoded({quote(piece.path)})")
        else:
            starts = range(0, len(piece), LONGEST_LITERAL)
            terms += [quote(piece[start : start + LONGEST_LITERAL]) for start in starts]
    return terms


def _functions(call: JsonPost, of_lists: str, of_files: str) -> str:
    """Give the functions that the body of a call is written with."""
    filled = of_lists if _has(call, Filled) else ""
    return filled + (of_files if _has(call, FileOf) else "")


def _has(call: JsonPost, kind: type) -> bool:
    return any(isinstance(piece, kind) for piece in call.body)


WRITERS: Final[Mapping[str, Callable[[JsonPost], str]]] = {
    "python": _python,
    "bash": _bash,
    "javascript": _javascript,
    "go": _go,
    "java": _java,
}
"""By language."""

ALIASES: Final[Mapping[str, str]] = {"golang": "go"}
"""Names of languages in simple_tensorflow_serving."""
