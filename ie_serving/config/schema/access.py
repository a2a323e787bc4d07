"""The settings of who may do what."""

from ie_serving.config.schema.setting import BOOLEAN, Setting
from ie_serving.config.values import words

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
        place="server.open_health",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="answer probes of health without credentials; false asks for the right read",
        example="false",
        flag="open_health",
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
