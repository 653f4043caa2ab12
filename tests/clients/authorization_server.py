"""An authorization server for tests: a token endpoint with TLS, and the document of keys that brokers read."""

from __future__ import annotations

import base64
import importlib
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from semel.testing import certificate

CLIENT_ID = "billing"
CLIENT_SECRET = "the-secret-of-billing"
AUTHORITY = certificate.AUTHORITY


class AuthorizationServer:
    def __init__(self, url: str) -> None:
        self.url = url
        self.token: Callable[[], str] = self.signed_token
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.lifetime_s = 300
        self.issued = 0
        self.asked: list[str] = []
        self.redirected_to: str | None = None

    def jwks(self) -> str:
        algorithm = importlib.import_module("jwt").algorithms.ECAlgorithm
        public = json.loads(algorithm.to_jwk(self.key.public_key()))
        return json.dumps({"keys": [{**public, "kid": "one", "use": "sig"}]})

    def signed_token(self) -> str:
        self.issued += 1
        now_s = int(time.time())
        claims = {"sub": CLIENT_ID, "iat": now_s, "exp": now_s + self.lifetime_s, "jti": str(self.issued)}
        headers = {"kid": "one"}
        token: str = importlib.import_module("jwt").encode(claims, self.key, algorithm="ES256", headers=headers)
        return token

    def answer(self, path: str, authorization: str) -> tuple[int, dict[str, Any], dict[str, str]]:
        self.asked.append(path)
        if self.redirected_to is not None:
            return 307, {}, {"Location": self.redirected_to}
        expected = "Basic " + base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if authorization != expected:
            return 401, {"error": "invalid_client", "error_description": "no such client"}, {}
        return 200, {"access_token": self.token(), "expires_in": self.lifetime_s, "token_type": "Bearer"}, {}

    def client_settings(self, secret: str = CLIENT_SECRET) -> dict[str, Any]:
        return {
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauthbearer_token_endpoint_url": self.url,
            "sasl_oauthbearer_client_credentials_client_id": CLIENT_ID,
            "sasl_oauthbearer_client_credentials_client_secret": secret,
            "ssl_truststore_certificates": AUTHORITY,
        }


@contextmanager
def authorization_server(folder: Path) -> Iterator[AuthorizationServer]:
    (folder / "server.pem").write_text(certificate.PRIVATE_KEY + certificate.CERTIFICATE)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            status, document, headers = server.answer(self.path, self.headers["Authorization"])
            body = json.dumps(document).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.socket = context.wrap_socket(http.socket, server_side=True)
    server = AuthorizationServer(f"https://localhost:{http.server_address[1]}/oauth2/token")
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
