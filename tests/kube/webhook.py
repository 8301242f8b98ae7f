"""An admission webhook that only tries each eviction in a namespace out, as one that deletes the pods itself, later.

Knows how webhooks are registered and asked; knows nothing of who evicts.
"""

import base64
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web

from tests.kube import pki
from tests.kube.client import JSON, ApiError, wait_until
from tests.kube.conftest import Kube
from tests.kube.processes import free_port

PATH = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@asynccontextmanager
async def evictions_tried_only(kube: Kube, namespace: str) -> AsyncIterator[list[str]]:
    """The API server says that pods of the namespace are evicted, and they stay; gives their names, once each time."""
    pods: list[str] = []

    async def review(request: web.Request) -> web.Response:
        asked = (await request.json())["request"]
        answer: JSON = {"uid": asked["uid"], "allowed": True}
        if asked["namespace"] == namespace:
            pods.append(asked["name"])
            there = "/dryRun" if asked["object"].get("deleteOptions") else ""
            value = ["All"] if there else {"dryRun": ["All"]}
            patch = [{"op": "add", "path": f"/deleteOptions{there}", "value": value}]
            answer |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer})

    async with AsyncExitStack() as stack:
        certificate = pki.make_server_certificate(kube.plane.folder, "webhook", kube.plane.authority)
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate.certificate, certificate.key)
        application = web.Application()
        application.router.add_post("/", review)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        port = free_port()
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
        authority = base64.b64encode(kube.plane.authority.certificate.read_bytes()).decode()
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"]}
        webhook = {
            "name": "tried-only.example.test",
            "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": authority},
            "rules": [rule],
            "sideEffects": "NoneOnDryRun",
            "admissionReviewVersions": ["v1"],
        }
        await kube.client.create(PATH, {"metadata": {"name": namespace}, "webhooks": [webhook]})
        stack.push_async_callback(kube.client.delete, f"{PATH}/{namespace}")

        async def asked() -> list[str]:
            eviction = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "nobody"}}
            with contextlib.suppress(ApiError):
                await kube.client.create(f"/api/v1/namespaces/{namespace}/pods/nobody/eviction", eviction)
            return pods

        await wait_until(asked, what="the webhook is asked")
        pods.clear()
        yield pods
