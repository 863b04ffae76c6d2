#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seeds of the fuzz targets s3_answers, s3_profiles and google_account: usage: make_s3_corpus.py fuzz/corpus"""
import json
import sys
from pathlib import Path

LIST = ('<?xml version="1.0"?><ListBucketResult xmlns="u">{}<IsTruncated>{}</IsTruncated>{}'
        '<Contents><Key>a%2Bb+c</Key><LastModified>2009-10-12T17:50:30.000Z</LastModified><ETag>&quot;e&quot;</ETag>'
        '<Size>12</Size></Contents><CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes></ListBucketResult>')
ESCAPED = "<EncodingType>url</EncodingType>"
TOKEN = "<NextContinuationToken>t</NextContinuationToken>"
STS = ('<R xmlns="u"><S><Credentials><AccessKeyId>i</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t'
       '</SessionToken><Expiration>2014-10-24T23:00:23Z</Expiration></Credentials></S></R>')
ANSWERS = {
    "list": (0, LIST.format("", "false", "")),
    "list_escaped": (0, LIST.format(ESCAPED, "true", TOKEN)),
    "list_odd": (0, "\ufeff<!-- c --><ListBucketResult><?p?><Contents><Key><![CDATA[<k>]]>&#65;</Key><Size>0</Size>"
                    "</Contents></ListBucketResult>"),
    "error": (1, "<Error><Code>AuthorizationHeaderMalformed</Code><Message>m</Message><Region>eu-west-1</Region></Error>"),
    "error_clock": (1, "<Error><Code>RequestTimeTooSkewed</Code><ServerTime>2013-05-24T00:00:00Z</ServerTime></Error>"),
    "error_sts": (1, "<ErrorResponse><Error><Code>ExpiredTokenException</Code></Error></ErrorResponse>"),
    "sts": (2, STS),
    "json": (3, '{"Version":1,"AccessKeyId":"i","SecretAccessKey":"s","SessionToken":"t","Expiration":"2019-05-29T00:21:43Z"}'),
    "json_sso": (3, '{"roleCredentials":{"accessKeyId":"A","expiration":1700000000500,"secretAccessKey":"B","sessionToken":"C"}}'),
    "oauth": (4, '{"access_token":"ya29","expires_in":3599,"token_type":"Bearer"}'),
}
PROFILES = {
    "default": "# c\n[default]\nregion = us-west-2  ; here\ns3 =\n  region = no\n",
    "profile": "[ profile   a ]\r\ncredential_process = /bin/x \"a b\" 'c' d\\ e\r\nregion=r\r\n",
    "broken": "[default\nregion = x\n[default]\n= y\nregion\nregion =\n",
}

root = Path(sys.argv[1])
# A key of 512 bits, of no account.
KEY = """-----BEGIN PRIVATE KEY-----
MIIBVQIBADANBgkqhkiG9w0BAQEFAASCAT8wggE7AgEAAkEArI3qsCrK9SjP8jve
qmkSKRLXAy90RwairBWmQoNRxicvWGfnS/sY9ALv0duNb9ARO9rYZbooekbwkcWu
+BXc0QIDAQABAkA9eprhhX2md5IPZlFhOepkg/fjhKbTH4QZ9+Sy0gLyrDFvYxL7
6X7IDvMGE9dLnl6PoB0B2ncAy6Rvx7G+rQcZAiEA3dzDopKWaCgDVJC2WypFwMjI
l+KoRZV4Ze8rnzFCrZcCIQDHGuSvvXHRQQbf2nkCTQVpW91sJcDmWC49gGp2gGLl
1wIhANQMYneJv3PBep1iysgLeSuvO/nfSpFnMPHMTFcUz/P1AiB9b2vza55w/k6e
aL0jvfJS1hVBNOe6NoOrK2PnFCs6MQIhAJw0K2CQJBeIkEeXa6IiYUur3IXdrzUi
G8y5Pa+ApQ/g
-----END PRIVATE KEY-----
"""
ACCOUNTS = {
    "account": json.dumps({"type": "service_account", "private_key_id": "k", "private_key": KEY, "client_email": "a@b",
                           "token_uri": "https://oauth2.googleapis.com/token"}),
    "user": json.dumps({"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "1//t"}),
    "here": json.dumps({"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "t",
                        "token_uri": "http://127.0.0.1:80/t"}),
    "key": KEY,
}

for folder, seeds in (("s3_answers", ANSWERS), ("s3_profiles", PROFILES), ("google_account", ACCOUNTS)):
    (root / folder).mkdir(parents=True, exist_ok=True)
    for name, seed in seeds.items():
        data = seed.encode() if isinstance(seed, str) else bytes([seed[0]]) + seed[1].encode()
        (root / folder / name).write_bytes(data)
