#!/usr/bin/env bash
# Brings Kafka's brokers and tools into .cache/kafka/VERSION by Maven. What is there already costs nothing;
# several calls at once are safe.
#
#   tests/jvm/fetch.sh [VERSION...]      (default: every version of the compatibility matrix)
set -euo pipefail

cd "$(dirname "$0")"
cache=../../.cache/kafka
versions=("$@")
[ $# -gt 0 ] || mapfile -t versions < <(sed 's/#.*//; /^[[:space:]]*$/d' versions.txt)

fetch() { # A folder appears under its name only when it is whole, with the pom that it came from.
    pom=$1 version=$2 folder=$cache/$3
    cmp -s "$pom" "$folder/pom.xml" && return
    mkdir -p "$cache"
    part=$(mktemp -d "$cache/.part.XXXXXX")
    trap 'rm -rf "$part"' EXIT
    echo "fetching Kafka $3" >&2
    mvn -q -B -f "$pom" dependency:copy-dependencies -Dkafka.version="$version" -DincludeScope=runtime \
        -DoutputDirectory="$(realpath "$part")" >&2
    cp "$pom" "$part/pom.xml"
    chmod 755 "$part"
    cmp -s "$pom" "$folder/pom.xml" || rm -rf "${folder:?}"
    # Somebody else may be first: theirs is as good as ours.
    mv -T "$part" "$folder" 2>/dev/null || cmp -s "$pom" "$folder/pom.xml"
}

for version in "${versions[@]}"; do
    (fetch pom.xml "$version" "$version")
done
[ $# -gt 0 ] || (fetch streams/pom.xml "${versions[0]}" "streams-${versions[0]}")
