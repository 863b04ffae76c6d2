#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# certificates.sh FOLDER: a CA of the test's own, and certificates by it for 127.0.0.1 and localhost, NAME.pem and NAME.key each:
#   ca  server  expired  other (of another host)  self (signed by itself)
# 77: there is no openssl.
set -eu
cd "$1"
command -v openssl >/dev/null || exit 77

# request NAME HOSTS
request() {
    printf 'subjectAltName=%s\nbasicConstraints=CA:FALSE\n' "$2" >"$1.ext"
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1" -keyout "$1.key" -out "$1.csr"
}

here=IP:127.0.0.1,DNS:localhost
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=test CA" -keyout ca.key -out ca.pem
request server $here
request other DNS:other.example
for name in server other; do
    openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile $name.ext -out $name.pem
done
request self $here
openssl x509 -req -in self.csr -signkey self.key -days 2 -extfile self.ext -out self.pem
# Days that are over are for `openssl ca` alone to give.
request expired $here
: >index.txt
echo 01 >serial
cat >ca.cnf <<END
[ca]
default_ca = here
[here]
database = index.txt
serial = serial
new_certs_dir = .
default_md = sha256
policy = any
[any]
commonName = supplied
END
openssl ca -batch -config ca.cnf -cert ca.pem -keyfile ca.key -in expired.csr -out expired.pem -extfile expired.ext -notext \
    -startdate 20200101000000Z -enddate 20200102000000Z
