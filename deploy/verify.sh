#!/bin/sh
# Tries the chart in your cluster: installs it with the sample model in a namespace of its own, asks both
# interfaces, by TensorFlow Serving's API and the Open Inference Protocol, replaces every pod while
# requests run, and fails if one of them did. Then all of it goes.
#
#   deploy/verify.sh registry.example.com/ie-serving:1.0.0
#   deploy/verify.sh IMAGE --keep       leaves the release and its namespace there
#
# Needs kubectl and helm, logged in, and the right to make a namespace.
set -eu

usage() {
    sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

IMAGE=${1-}
KEEP=${2-}
case "$IMAGE" in "" | -*) usage ;; esac
case "$KEEP" in "" | --keep) ;; *) usage ;; esac
TAG=${IMAGE##*:}
case "$IMAGE" in *@*) usage ;; *:*) ;; *) usage ;; esac
case "$TAG" in */*) usage ;; esac # the colon is that of a port

cd "$(dirname "$0")/.."
NAMESPACE=ie-serving-verify-$(date +%s)
CLIENT=verify-client

say() { echo "verify.sh: $*" >&2; }
k() { kubectl --namespace "$NAMESPACE" "$@"; }

clean() {
    status=$?
    if [ "$status" -ne 0 ]; then
        say "failed; what the pods say:"
        k get pods --output wide >&2 || true
        k describe deployment/ie-serving >&2 || true
        k logs --selector app.kubernetes.io/instance=ie-serving --tail 50 --prefix >&2 || true
    fi
    if [ "$KEEP" = --keep ]; then
        say "left there: namespace $NAMESPACE; remove it by: kubectl delete namespace $NAMESPACE"
    else
        helm --namespace "$NAMESPACE" uninstall ie-serving >/dev/null 2>&1 || true
        kubectl delete namespace "$NAMESPACE" --wait=false >/dev/null 2>&1 || true
    fi
    exit "$status"
}

say "makes namespace $NAMESPACE, whose pods must keep to the standard restricted"
kubectl create namespace "$NAMESPACE"
trap clean EXIT
trap 'exit 130' INT TERM
kubectl label namespace "$NAMESPACE" pod-security.kubernetes.io/enforce=restricted

say "puts the sample model into a ConfigMap"
k create configmap model \
    --from-file=model.xml=examples/models/digits/2/model.xml \
    --from-file=model.bin=examples/models/digits/2/model.bin
k create configmap client --from-file=verify_client.py=deploy/verify_client.py

say "installs the chart"
helm --namespace "$NAMESPACE" upgrade --install ie-serving deploy/helm/ie-serving \
    --values deploy/helm/values/verify.yaml \
    --set-string image.repository="${IMAGE%:*}" --set-string image.tag="$TAG"
k rollout status deployment/ie-serving --timeout=11m

say "starts a client, which asks both interfaces until it is told to stop"
sed "s|IMAGE|$IMAGE|" deploy/verify_client.yaml | k create --filename -
k wait --for=condition=Ready "pod/$CLIENT" --timeout=3m

say "replaces every pod, twice"
for round in 1 2; do
    k rollout restart deployment/ie-serving
    k rollout status deployment/ie-serving --timeout=11m
    say "round $round is over"
done

say "reads what the client has seen"
k exec "$CLIENT" -- touch /tmp/stop
k wait --for=jsonpath='{.status.phase}'=Succeeded "pod/$CLIENT" --timeout=2m || {
    k logs "$CLIENT" >&2
    exit 1
}
k logs "$CLIENT"
say "passed: not one request failed"
