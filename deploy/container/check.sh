#!/bin/sh
# Build the image without a container engine and use it: `make docker_check`. As root on Debian.
#
# BASE is made of Debian packages, so that no registry is needed; the rest of the Dockerfile is built
# as it stands.
set -eu

python=$1
image=localhost/ie_serving:check
base=localhost/debian-python:check
release=bookworm

apt-get update -qq
apt-get install --quiet --yes --no-install-recommends buildah mmdebstrap iproute2 >/dev/null

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
if ! buildah inspect --type image "$base" >/dev/null 2>&1; then
    mmdebstrap --quiet --variant=minbase --include=python3,python3-venv,ca-certificates \
        "$release" "$directory/root.tar"
    printf 'FROM scratch\nADD root.tar /\n' >"$directory/Dockerfile"
    buildah bud --quiet --isolation chroot --tag "$base" "$directory"
fi

# How this machine reaches packages: its certificates and pip's configuration.
set -- --volume /etc/ssl/certs:/etc/ssl/certs:ro
if [ -f /etc/pip.conf ]; then
    set -- "$@" --volume /etc/pip.conf:/etc/pip.conf:ro
fi
buildah bud --quiet --isolation chroot --format docker --layers --build-arg BASE="$base" "$@" \
    --tag "$image" .

buildah images --filter reference="$base"
buildah images --filter reference="$image"

IMAGE=$image "$python" -m pytest -p no:cacheprovider -n 2 deploy/container/test_image.py
