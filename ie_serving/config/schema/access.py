"""The settings of callers and their rights."""

from ie_serving.config.schema.setting import BOOLEAN, Setting
from ie_serving.config.values import tokens, words

ACCESS: tuple[Setting, ...] = (
    Setting(
        place="server.api_key_file",
        parse=words.text,
        form="FILE",
        meaning="who may do what: a line for each key, user or client certificate, as `ie_serving"
        " key new` prints; read again when it changes. Both ports then answer nobody else",
        example="/etc/ie_serving/keys",
        flag="api_key_file",
        variables=("API_KEY_FILE",),
    ),
    Setting(
        place="server.jwt_keys",
        parse=tokens.keys_place,
        form="FILE|URL",
        meaning="keys (a JSON Web Key Set) that an issuer signs tokens with; lines jwt:CLAIM=VALUE"
        " of the file of keys say what their bearers may do. A URL is asked every 5 minutes",
        example="https://login.example.com/keys",
        flag="jwt_keys",
    ),
    Setting(
        place="server.jwt_issuer",
        parse=words.text,
        form="TEXT",
        meaning="issuer of these tokens: their claim iss",
        example="https://login.example.com/",
        flag="jwt_issuer",
    ),
    Setting(
        place="server.jwt_audience",
        parse=words.text,
        form="TEXT",
        meaning="audience of these tokens: their claim aud names it, or one of several with commas",
        example="ie_serving",
        flag="jwt_audience",
    ),
    Setting(
        place="server.jwt_algorithms",
        parse=tokens.algorithms,
        form="NAMES",
        default="RS256,ES256",
        meaning="algorithms that they may be signed by: some of RS256, RS384, RS512, PS256, PS384,"
        " PS512, ES256, ES384, ES512, EdDSA",
        example="ES256",
        flag="jwt_algorithms",
    ),
    Setting(
        place="server.jwt_leeway_s",
        parse=tokens.leeway,
        form="SECONDS",
        meaning="seconds by which the clocks of issuer and server may differ, 300 at most",
        example="60",
        flag="jwt_leeway_seconds",
    ),
    Setting(
        place="server.open_health",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="answer probes of health without credentials; false asks for the right read",
        example="false",
        flag="open_health",
    ),
    Setting(
        place="server.page",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="show people the models, their states, rates and errors at / of the REST port, and"
        " let them try requests; false answers 404 there",
        example="false",
        flag="page",
    ),
    # Words of simple_tensorflow_serving, whose user may do everything.
    Setting(
        place="server.enable_auth",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="answer only callers with credentials: the one user of the next two flags, who has"
        " every right, and those of the file",
        example="true",
        flag="enable_auth",
    ),
    Setting(
        place="server.auth_username",
        parse=words.text,
        form="TEXT",
        meaning="name of that user",
        example="admin",
        flag="auth_username",
    ),
    Setting(
        place="server.auth_password",
        parse=words.unchecked,
        form="TEXT",
        meaning="password of that user, which everyone on this machine can see among its"
        " processes: better a line of the file",
        example="a-long-one",
        flag="auth_password",
    ),
)
