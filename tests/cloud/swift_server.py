# SPDX-License-Identifier: Apache-2.0
"""One server of OpenStack Swift in the foreground: swift_server.py FOLDER account|container|object|proxy.

FOLDER has the rings, swift.conf, and a configuration of each server, which servers.py writes.
"""
import logging
import os
import sys

from swift.common import constraints, storage_policy, utils
from swift.common.wsgi import run_wsgi


def log_to_file(conf, name, log_to_console, log_route, fmt, logger, adapted_logger):
    """What conf names as log_custom_handlers: standard error is closed, and there may be no syslog."""
    logger.addHandler(logging.FileHandler(os.path.join(conf["swift_dir"], "swift.log")))


def main():
    folder, kind = sys.argv[1:]
    utils.SWIFT_CONF_FILE = os.path.join(folder, "swift.conf")
    utils.validate_hash_conf()
    constraints.reload_constraints()
    storage_policy.reload_storage_policies()
    return run_wsgi(os.path.join(folder, kind + ".conf"), kind + "-server")


if __name__ == "__main__":
    sys.exit(main())
