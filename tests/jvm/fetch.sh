#!/usr/bin/env bash
# Brings Kafka's brokers and tools into .cache/kafka/VERSION by Maven. What is there already costs nothing;
# several calls at once are safe.
#
#   tests/jvm/fetch.sh [VERSION...]      (default: every version of the compatibility matrix)
set -euo pipefail

cd "$(dirname "$0")"
cache=../../.cache/kafka
pom=pom.xml
versions=("$@")
[ $# -gt 0 ] || mapfile -t versions < <(sed 's/#.*//; /^[[:space:]]*$/d' versions.txt)

fetch() { # A folder appears under its name only when it is whole, with the pom that it came from.
    version=$1
    cmp -s "$pom" "$cache/$version/$pom" && return
    mkdir -p "$cache"
    part=$(mktemp -d "$cache/.part.XXXXXX")
    trap 'rm -rf "$part"' EXIT
    echo "fetching Kafka $version" >&2
    mvn -q -B -f "$pom" dependency:copy-dependencies -Dkafka.version="$version" -DincludeScope=runtime \
        -DoutputDirectory="$(realpath "$part")" >&2
    cp "$pom" "$part/"
    chmod 755 "$part"
    cmp -s "$pom" "$cache/$version/$pom" || rm -rf "${cache:?}/$version"
    # Somebody else may be first: theirs is as good as ours.
    mv -T "$part" "$cache/$version" 2>/dev/null || cmp -s "$pom" "$cache/$version/$pom"
}

for version in "${versions[@]}"; do
    (fetch "$version")
done
