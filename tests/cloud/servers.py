# SPDX-License-Identifier: Apache-2.0
"""Servers that tests of the cloud stores run against, each as a context manager: README.md.

    with swift() as s:
        s.endpoint, s.key, s.secret, s.region

All listen on the loopback interface and end with their block, by their process ids. What one needs and is not here raises Missing, of
which a test makes a skip.
"""
import contextlib
import getpass
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).resolve().parent
CLOUD_SERVER = Path(os.environ.get("CLOUD_SERVER", HERE.parent.parent / "build/tests/cloud_server"))
# Debian's Python packages are its own interpreter's.
PYTHON = os.environ.get("STOKER_SWIFT_PYTHON", "/usr/bin/python3")
START_S = 60
STOP_S = 20


class Missing(Exception):
    """A program or package that is not installed."""


def free_ports(count):
    """Ports that nobody listened at a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()


@contextlib.contextmanager
def folder():
    path = tempfile.mkdtemp(prefix="stoker-cloud-")
    try:
        yield Path(path)
    finally:
        shutil.rmtree(path)


def stop(process):
    """Ask it to end, and make it."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout:
        process.stdout.close()


@contextlib.contextmanager
def running(command, log, **options):
    """A process in the foreground, whose output goes to a file."""
    with open(log, "ab") as output:
        process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=output, stderr=output, **options)
    process.log = Path(log)
    try:
        yield process
    finally:
        stop(process)


def wait_for(port, *processes):
    """Until something listens, or one of its processes has ended."""
    deadline = time.monotonic() + START_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        for process in processes:
            if process.poll() is not None:
                raise RuntimeError(f"{process.args[0]} ended with {process.returncode}: {process.log.read_text()[-2000:]}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"nothing listens at port {port} after {START_S} s")
        time.sleep(0.05)


def ask(url, method="GET", data=None, headers=None):
    """(status, headers, body) of a request without any client's own ideas."""
    request = urllib.request.Request(url, data=data, method=method, headers=headers or {})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=START_S) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


# ---- Certificates ----

def certificates(path):
    """A CA of the test's own in a folder, and certificates by it, as certificates.sh says."""
    done = subprocess.run(["sh", HERE / "certificates.sh", path], capture_output=True, text=True)
    if done.returncode == 77:
        raise Missing("openssl is not installed")
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return path


# ---- The project's own ----

class CloudServer:
    """What README.md says of requests below /-/."""

    def __init__(self, endpoint, pid):
        self.endpoint, self.pid = endpoint, pid

    def tell(self, what, body=""):
        status, _, answer = ask(f"{self.endpoint}/-/{what}", "POST", body.encode())
        if status != 200:
            raise ValueError(f"the server does not understand {what}: {body}")
        return answer.decode().strip()

    def fault(self, **words):
        """Its number; fields with '_' or '-' alike."""
        return int(self.tell("fault", ",".join(f"{name.replace('_', '-')}={value}" for name, value in words.items())))

    def struck(self, number):
        return int(self.tell("struck", str(number)))

    def counters(self):
        lines = ask(f"{self.endpoint}/-/counters")[2].decode().split("\n")
        return {name.replace("-", "_"): int(value) for name, value in (line.split() for line in lines if line)}


@contextlib.contextmanager
def cloud_server(*arguments):
    """The web server of the tests with these arguments, as a CloudServer."""
    if not CLOUD_SERVER.exists():
        raise Missing(f"no {CLOUD_SERVER}: build with -DSTOKER_BUILD_TESTS=ON")
    process = subprocess.Popen([CLOUD_SERVER, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        endpoint = process.stdout.readline().strip()
        if not endpoint:
            raise RuntimeError(f"cloud_server ended with {process.wait()}")
        yield CloudServer(endpoint, process.pid)
    finally:
        stop(process)


# ---- nginx ----

NGINX = """
daemon off;
worker_processes {workers};
pid {path}/pid;
error_log {path}/error.log;
events {{ worker_connections 4096; }}
http {{
    log_format requests '$server_protocol $connection $status $request_method $uri';
    access_log {path}/requests requests;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    client_max_body_size 1g;
    client_body_temp_path {path}/body;
    proxy_temp_path {path}/proxy;
    fastcgi_temp_path {path}/fastcgi;
    uwsgi_temp_path {path}/uwsgi;
    scgi_temp_path {path}/scgi;
    server {{
        listen 127.0.0.1:{port}{listen};
        {tls}
        root {root};
        dav_methods PUT DELETE;
        create_full_put_path on;
        {upstream}
    }}
}}
"""
# Another server behind it, as it answers: what is cut, late or stalled there is so here.
UPSTREAM = """location / {{
            proxy_pass {endpoint};
            proxy_http_version 1.1;
            proxy_buffering off;
            proxy_next_upstream off;
        }}"""


@contextlib.contextmanager
def nginx(root, tls=None, http2=False, workers=1, certificate="server", upstream=None):
    """The files of a folder, and PUT and DELETE; or what the server at `upstream` has. `tls`: a folder of certificates().

    .endpoint, .pid, and .requests(): what it has answered, as (protocol, connection, status, method, path).
    """
    program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if not program:
        raise Missing("nginx is not installed")
    with folder() as path:
        [port] = free_ports(1)
        lines = f"ssl_certificate {tls}/{certificate}.pem; ssl_certificate_key {tls}/{certificate}.key;" if tls else ""
        listen = (" ssl" if tls else "") + (" http2" if http2 else "")
        # Workers of root's are another user's, who sees neither.
        user = f"user {getpass.getuser()};\n" if os.geteuid() == 0 else ""
        (path / "nginx.conf").write_text(user + NGINX.format(path=path, port=port, listen=listen, tls=lines, root=root,
                                                             workers=workers,
                                                             upstream=UPSTREAM.format(endpoint=upstream) if upstream else ""))
        with running([program, "-p", path, "-e", path / "error.log", "-c", path / "nginx.conf"], path / "log") as process:
            wait_for(port, process)
            yield SimpleNamespace(endpoint=f"{'https' if tls else 'http'}://127.0.0.1:{port}", pid=process.pid,
                                  requests=lambda: [tuple(line.split(" ", 4)) for line in (path / "requests").read_text().splitlines()])


# ---- OpenStack Swift ----

SWIFT = {
    "account": "[pipeline:main]\npipeline = account-server\n[app:account-server]\nuse = egg:swift#account\n",
    "container": "[pipeline:main]\npipeline = container-server\n[app:container-server]\nuse = egg:swift#container\n",
    "object": "[pipeline:main]\npipeline = object-server\n[app:object-server]\nuse = egg:swift#mem_object\n",
    "proxy": """[pipeline:main]
pipeline = catch_errors gatekeeper cache listing_formats bulk s3api tempauth copy slo dlo versioned_writes proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
# Asked for by the others, and done without where nothing listens there.
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:1
[filter:s3api]
use = egg:swift#s3api
location = {region}
min_segment_size = 1
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = {secret} .admin
""" + "".join(f"[filter:{name}]\nuse = egg:swift#{name}\n" for name in
             ("catch_errors", "gatekeeper", "listing_formats", "bulk", "copy", "slo", "dlo", "versioned_writes")),
}


def make_rings(path, ports):
    """One device for each ring; by Swift's own interpreter, which has the package."""
    lines = [f"b = RingBuilder(8, 1, 0)\nb.add_dev({{'region': 1, 'zone': 1, 'ip': '127.0.0.1', 'port': {ports[kind]}, 'device': 'd1', "
             f"'weight': 1}})\nb.rebalance()\nb.get_ring().save({str(path / kind)!r} + '.ring.gz')\n"
             for kind in ("account", "container", "object")]
    subprocess.run([PYTHON, "-c", "from swift.common.ring import RingBuilder\n" + "".join(lines)], check=True, capture_output=True,
                   timeout=START_S)


@contextlib.contextmanager
def swift(region="us-east-1"):
    """OpenStack Swift with S3's interface, which checks signatures: .endpoint, .key, .secret, .region."""
    if subprocess.run([PYTHON, "-c", "import swift"], capture_output=True).returncode != 0:
        raise Missing(f"{PYTHON} has no swift: install the package python3-swift")
    with folder() as path, contextlib.ExitStack() as stack:
        kinds = ["account", "container", "object", "proxy"]
        ports = dict(zip(kinds, free_ports(4)))
        (path / "devices/d1").mkdir(parents=True)
        (path / "swift.conf").write_text("[swift-hash]\nswift_hash_path_suffix = tests\n[storage-policy:0]\nname = one\ndefault = yes\n")
        for kind in kinds:
            head = (f"[DEFAULT]\nbind_ip = 127.0.0.1\nbind_port = {ports[kind]}\nworkers = 0\nuser = {getpass.getuser()}\n"
                    f"swift_dir = {path}\ndevices = {path}/devices\nmount_check = false\nlog_level = ERROR\n"
                    "log_custom_handlers = swift_server.log_to_file\n")
            (path / f"{kind}.conf").write_text(head + SWIFT[kind].format(region=region, secret="testing"))
        make_rings(path, ports)
        processes = [stack.enter_context(running([PYTHON, HERE / "swift_server.py", path, kind], path / f"{kind}.log"))
                     for kind in kinds]
        for kind in kinds:
            wait_for(ports[kind], *processes)
        yield SimpleNamespace(endpoint=f"http://127.0.0.1:{ports['proxy']}", key="test:tester", secret="testing", region=region,
                              pids=[p.pid for p in processes])


# ---- moto ----

@contextlib.contextmanager
def moto(check=False):
    """moto's server: .endpoint, .key, .secret, .region. `check`: it refuses keys that it does not know."""
    for name in ("moto", "flask", "flask_cors"):
        if importlib.util.find_spec(name) is None:
            raise Missing(f"{sys.executable} has no {name}: tests/interop/requirements.txt")
    with folder() as path:
        [port] = free_ports(1)
        environment = dict(os.environ, MOTO_S3_CUSTOM_ENDPOINTS="")
        if check:
            environment["INITIAL_NO_AUTH_ACTION_COUNT"] = "0"
        with running([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", port], path / "log", env=environment) as process:
            wait_for(port, process)
            yield SimpleNamespace(endpoint=f"http://127.0.0.1:{port}", key="testing", secret="testing", region="us-east-1",
                                  pid=process.pid)


# ---- MLflow ----

@contextlib.contextmanager
def mlflow():
    """Its tracking server with a data base of its own, which keeps artifacts: .endpoint, .pid."""
    if importlib.util.find_spec("mlflow") is None:
        raise Missing(f"{sys.executable} has no mlflow: tests/interop/requirements.txt")
    with folder() as path:
        [port] = free_ports(1)
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", port, "--workers", "1",
                   "--backend-store-uri", f"sqlite:///{path}/runs.db", "--artifacts-destination", path / "artifacts"]
        environment = dict(os.environ, MLFLOW_DISABLE_TELEMETRY="true", DO_NOT_TRACK="true")
        with running(command, path / "log", env=environment, start_new_session=True) as process:
            try:
                wait_for(port, process)
                yield SimpleNamespace(endpoint=f"http://127.0.0.1:{port}", pid=process.pid)
            finally:
                # Its workers are processes of the session that it began.
                stop(process)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
