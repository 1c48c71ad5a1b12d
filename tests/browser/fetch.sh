#!/usr/bin/env bash
# Chromium and axe for the tests of the page, into .cache/browser. Nothing is installed, and no root is needed.
set -euo pipefail
AXE=4.14.1
cache=$(realpath -m "$(dirname "$0")/../../.cache/browser")
mkdir -p "$cache/packages" "$cache/apt/lists/partial" "$cache/apt/archives/partial"
cd "$cache"

if [ ! -f axe.min.js ]; then
    rm -rf package
    npm pack --silent "axe-core@$AXE" > /dev/null
    tar xzf "axe-core-$AXE.tgz" package/axe.min.js
    mv package/axe.min.js .
    rm -rf package "axe-core-$AXE.tgz"
fi

command -v chromium > /dev/null && exit
[ -x root/usr/lib/chromium/chromium-headless-shell ] && exit

own=(-o "Dir::State::Lists=$cache/apt/lists" -o "Dir::Cache=$cache/apt" -o Debug::NoLocking=1 -o APT::Sandbox::User=)
# What it needs beside what this machine has.
needed() { apt-get "$@" install --print-uris -qq --no-install-recommends chromium-headless-shell | tr -d "'" | awk '{print $2}' | sed 's/_.*//'; }
if ! packages=$(needed 2> /dev/null) || [ -z "$packages" ]; then
    apt-get "${own[@]}" update -qq
    packages=$(needed "${own[@]}")
else
    own=(-o APT::Sandbox::User=)
fi
(cd packages && apt-get "${own[@]}" download -qq $packages)
for package in packages/*.deb; do dpkg -x "$package" root; done
rm -rf packages apt
