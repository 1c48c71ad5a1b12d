#!/usr/bin/env bash
# A root that stands in for the base image of the Dockerfile where its registry is not reachable: Debian's own Python of
# the same version, /usr/local/bin/python. Larger than the real one, because it has the headers of Debian's packages.
#   base.sh FOLDER       needs root, debootstrap and Debian's mirror; 350 MB
set -euo pipefail
root=$1
debootstrap --variant=minbase --include=ca-certificates,python3,python3-dev,python3-venv trixie "$root"
ln -s /usr/bin/python3 "$root/usr/local/bin/python"
# What this machine trusts, for package registries behind a proxy.
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
if [ -e /etc/pip.conf ]; then cp /etc/pip.conf "$root/etc/"; fi
