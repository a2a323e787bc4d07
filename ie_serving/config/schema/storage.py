"""The settings of storage: flags for the cache, variables for each store.

A store's client reads more variables by itself (boto3 its credential chain, google-auth its default
credentials, all of them the proxies); `docs/guide/stores.md` names them.
"""

from ie_serving.config.schema.setting import BOOLEAN, Setting
from ie_serving.config.values import numbers, words
from ie_serving.core.values.integers import INT64_MAX

CACHE: tuple[Setting, ...] = (
    Setting(
        place="storage.cache_dir",
        parse=words.directory,
        form="PATH",
        default="ie_serving in the user's cache, copies only",
        meaning="directory for copies of remote repositories; when given, for compiled models too",
        example="/var/cache/ie_serving",
        flag="cache_dir",
        ovms=("cache_dir",),
    ),
    # No limit by default: evicting copies needed after the next restart is a worse surprise than a
    # full disk, which is reported.
    Setting(
        place="storage.cache_size_bytes",
        parse=numbers.integer(0, INT64_MAX),
        form="BYTES",
        meaning="bytes at which the least recently used copies are evicted; 0 sets no limit",
        example="10737418240",
        flag="cache_size_bytes",
    ),
    Setting(
        place="storage.min_download_bytes_per_s",
        parse=numbers.integer(0, INT64_MAX),
        form="BYTES",
        meaning="bytes a second below which a download ends, to be tried again; 0 sets no limit",
        example="5000",
        flag="min_download_bytes_per_second",
    ),
)

S3: tuple[Setting, ...] = (
    Setting(
        place="s3.endpoint",
        # A URL has too many right forms to check here; the client's error names this variable.
        parse=words.unchecked,
        form="HOST:PORT|URL",
        default="AWS",
        meaning="another store, host:port or with http:// or https://",
        example="https://minio.storage.svc:9000",
        variables=("S3_ENDPOINT",),
        ovms=("S3_ENDPOINT",),
    ),
    Setting(
        place="s3.https",
        parse=words.boolean,
        form=BOOLEAN,
        default="true",
        meaning="false: no TLS for an endpoint without a scheme",
        example="0",
        variables=("S3_USE_HTTPS",),
        merged=True,
    ),
    Setting(
        place="s3.region",
        parse=words.unchecked,
        form="TEXT",
        default="the profile's",
        meaning="region; a store other than AWS needs none",
        example="eu-west-1",
        # Most SDKs of AWS read the first; its command line and boto3 the second.
        variables=("AWS_REGION", "AWS_DEFAULT_REGION"),
        ovms=("AWS_REGION",),
    ),
    Setting(
        place="s3.access_key",
        parse=words.unchecked,
        form="TEXT",
        default="the credential chain",
        meaning="access key",
        example="AKIAIOSFODNN7EXAMPLE",
        variables=("AWS_ACCESS_KEY_ID",),
        ovms=("AWS_ACCESS_KEY_ID",),
    ),
    Setting(
        place="s3.secret_key",
        # A fault would show the value.
        parse=words.unchecked,
        form="SECRET",
        default="the credential chain",
        meaning="its secret",
        example="SECRET",
        variables=("AWS_SECRET_ACCESS_KEY",),
        ovms=("AWS_SECRET_ACCESS_KEY",),
    ),
    Setting(
        place="s3.session_token",
        parse=words.unchecked,
        form="SECRET",
        default="the credential chain",
        meaning="token of keys that expire",
        example="SECRET",
        variables=("AWS_SESSION_TOKEN",),
        ovms=("AWS_SESSION_TOKEN",),
    ),
    # Without it a public bucket is read with the credentials that the chain finds, and a store
    # refuses unknown keys even where it requires none.
    Setting(
        place="s3.anonymous",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="true: unsigned requests, for public buckets",
        example="1",
        variables=("S3_ANONYMOUS",),
    ),
    Setting(
        place="s3.signature",
        # botocore's own names, which grow with its versions.
        parse=words.unchecked,
        form="TEXT",
        default="boto3's choice",
        meaning="signature version, s3v4 or s3",
        example="s3v4",
        variables=("S3_SIGNATURE",),
    ),
    Setting(
        place="s3.addressing",
        parse=words.one_of("auto", "path", "virtual"),
        form="auto|path|virtual",
        meaning="where the bucket stands; auto: in the path with an endpoint, in the host at AWS",
        example="path",
        variables=("S3_ADDRESSING_STYLE",),
    ),
    Setting(
        place="s3.ca_bundle",
        parse=words.unchecked,
        form="FILE",
        default="the system's",
        meaning="file of trusted authorities",
        example="/etc/ssl/store/ca.crt",
        variables=("AWS_CA_BUNDLE",),
    ),
    Setting(
        place="s3.verify",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="false: accept any certificate",
        example="0",
        variables=("S3_VERIFY_SSL",),
    ),
)

GCS: tuple[Setting, ...] = (
    Setting(
        place="gcs.credentials",
        parse=words.unchecked,
        form="FILE",
        default="the default credentials",
        meaning="key or federation file",
        example="/etc/gcs/key.json",
        variables=("GOOGLE_APPLICATION_CREDENTIALS",),
        ovms=("GOOGLE_APPLICATION_CREDENTIALS",),
    ),
    Setting(
        place="gcs.anonymous",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="true: no credentials, for public buckets",
        example="1",
        variables=("GCS_ANONYMOUS",),
    ),
    # The variable that Google's client itself reads.
    Setting(
        place="gcs.endpoint",
        parse=words.unchecked,
        form="HOST:PORT|URL",
        default="Google",
        meaning="an emulator, asked without credentials",
        example="http://localhost:4443",
        variables=("STORAGE_EMULATOR_HOST",),
    ),
)

MINIO: tuple[Setting, ...] = (
    Setting(
        place="minio.endpoint",
        parse=words.unchecked,
        form="HOST:PORT|URL",
        required=True,
        meaning="the store; http:// or https:// before it says whether it has TLS",
        example="minio.storage.svc:9000",
        variables=("MINIO_ENDPOINT",),
    ),
    Setting(
        place="minio.access_key",
        parse=words.unchecked,
        form="TEXT",
        default="anonymous",
        meaning="access key",
        example="reader",
        variables=("MINIO_ACCESS_KEY",),
    ),
    Setting(
        place="minio.secret_key",
        parse=words.unchecked,
        form="SECRET",
        default="anonymous",
        meaning="its secret",
        example="SECRET",
        variables=("MINIO_SECRET_KEY",),
    ),
    Setting(
        place="minio.secure",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="false: no TLS for an endpoint without a scheme",
        example="0",
        variables=("MINIO_SECURE",),
    ),
    Setting(
        place="minio.region",
        parse=words.unchecked,
        form="TEXT",
        meaning="region of the server",
        example="us-east-1",
        variables=("MINIO_REGION",),
    ),
    Setting(
        place="minio.ca_bundle",
        parse=words.unchecked,
        form="FILE",
        default="the system's",
        meaning="file of trusted authorities",
        example="/etc/ssl/minio/ca.crt",
        # MinIO's own client reads the second.
        variables=("MINIO_CA_BUNDLE", "SSL_CERT_FILE"),
    ),
    Setting(
        place="minio.verify",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="false: accept any certificate",
        example="0",
        variables=("MINIO_VERIFY_SSL",),
    ),
)

STORES = (*S3, *GCS, *MINIO)
