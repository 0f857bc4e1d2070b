//! The formats that are kept, each as an expression for whole strings.

/// Formats of strings: exact, but where the last word says that they are narrower.
pub const FORMATS: [(&str, &str, &str); 19] = [
    ("date", DATE, "exact"),
    ("time", TIME, "without leap seconds"),
    ("date-time", DATE_TIME, "without leap seconds"),
    ("duration", DURATION, "numbers of up to nine digits"),
    ("uuid", UUID, "exact"),
    ("ipv4", IPV4, "exact"),
    ("ipv6", IPV6, "without embedded IPv4 and zones"),
    ("email", EMAIL, "without quoted names and addresses in brackets"),
    ("hostname", HOSTNAME, "ASCII labels without double hyphens, at most four"),
    ("idn-email", EMAIL, "as email"),
    ("idn-hostname", HOSTNAME, "as hostname"),
    ("json-pointer", POINTER, "exact"),
    ("relative-json-pointer", RELATIVE_POINTER, "numbers of up to nine digits"),
    ("iri", URI, "as uri"),
    ("iri-reference", URI_REFERENCE, "as uri-reference"),
    ("uri-reference", URI_REFERENCE, "as uri, or a path, query and fragment"),
    ("uri-template", URI_TEMPLATE, "ASCII"),
    ("regex", REGEX, "without groups, alternatives and counts"),
    ("uri", URI, "http, https, ftp, ws and wss with a host, and urn, mailto, file and data"),
];

/// Formats of whole numbers, as schema generators name the types of languages: lowest and highest.
pub const INTEGERS: [(&str, i128, i128); 10] = [
    ("int8", i8::MIN as i128, i8::MAX as i128),
    ("int16", i16::MIN as i128, i16::MAX as i128),
    ("int32", i32::MIN as i128, i32::MAX as i128),
    ("int64", i64::MIN as i128, i64::MAX as i128),
    ("int", i64::MIN as i128, i64::MAX as i128),
    ("uint8", 0, u8::MAX as i128),
    ("uint16", 0, u16::MAX as i128),
    ("uint32", 0, u32::MAX as i128),
    ("uint64", 0, u64::MAX as i128),
    ("uint", 0, u64::MAX as i128),
];

/// Formats of numbers that every number has.
pub const FLOATS: [&str; 2] = ["float", "double"];

/// A day that there is.
macro_rules! date {
    () => {
        concat!(
            "([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)",
            "|02-(0[1-9]|1[0-9]|2[0-8]))",
            "|(([0-9]{2}(0[48]|[2468][048]|[13579][26]))|(([02468][048]|[13579][26])00))-02-29)"
        )
    };
}
/// A time of day with its zone.
macro_rules! time {
    () => {
        concat!(
            "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?",
            "([zZ]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
        )
    };
}
const DATE: &str = date!();
const TIME: &str = time!();
const DATE_TIME: &str = concat!(date!(), "[tT]", time!());
const DURATION: &str = concat!(
    "P([0-9]{1,9}W|([0-9]{1,9}Y([0-9]{1,9}M([0-9]{1,9}D)?)?|[0-9]{1,9}M([0-9]{1,9}D)?|[0-9]{1,9}D)",
    "(T([0-9]{1,9}H([0-9]{1,9}M([0-9]{1,9}S)?)?|[0-9]{1,9}M([0-9]{1,9}S)?|[0-9]{1,9}S))?",
    "|T([0-9]{1,9}H([0-9]{1,9}M([0-9]{1,9}S)?)?|[0-9]{1,9}M([0-9]{1,9}S)?|[0-9]{1,9}S))"
);
const UUID: &str = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}";
const IPV4: &str = concat!(
    "((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\\.){3}",
    "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
);
const IPV6: &str = concat!(
    "(([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}",
    "|::([0-9a-fA-F]{1,4}(:[0-9a-fA-F]{1,4}){0,6})?",
    "|[0-9a-fA-F]{1,4}::([0-9a-fA-F]{1,4}(:[0-9a-fA-F]{1,4}){0,5})?",
    "|[0-9a-fA-F]{1,4}(:[0-9a-fA-F]{1,4})::([0-9a-fA-F]{1,4}(:[0-9a-fA-F]{1,4}){0,4})?",
    "|[0-9a-fA-F]{1,4}(:[0-9a-fA-F]{1,4}){2}::([0-9a-fA-F]{1,4}(:[0-9a-fA-F]{1,4}){0,3})?",
    "|[0-9a-fA-F]{1,4}(:[0-9a-fA-F]{1,4}){3}::([0-9a-fA-F]{1,4}(:[0-9a-fA-F]{1,4}){0,2})?",
    "|[0-9a-fA-F]{1,4}(:[0-9a-fA-F]{1,4}){4}::([0-9a-fA-F]{1,4}(:[0-9a-fA-F]{1,4})?)?",
    "|[0-9a-fA-F]{1,4}(:[0-9a-fA-F]{1,4}){5}::([0-9a-fA-F]{1,4})?",
    "|[0-9a-fA-F]{1,4}(:[0-9a-fA-F]{1,4}){6}::)"
);
const EMAIL: &str = concat!(
    "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~\\-]{1,20}(\\.[a-zA-Z0-9!#$%&'*+/=?^_`{|}~\\-]{1,20}){0,2}",
    "@[a-zA-Z0-9]([a-zA-Z0-9]{0,30}(-[a-zA-Z0-9]{1,20})?)(\\.[a-zA-Z][a-zA-Z0-9]{0,30}){1,3}"
);
const HOSTNAME: &str = concat!(
    "[a-zA-Z0-9]{1,31}(-[a-zA-Z0-9]{1,30})?",
    "(\\.[a-zA-Z][a-zA-Z0-9]{0,30}(-[a-zA-Z0-9]{1,30})?){0,3}"
);
/// Queries and fragments.
macro_rules! tail {
    () => {
        concat!(
            "(\\?([a-zA-Z0-9\\-._~!$&'()*+,;=:@/?]|%[0-9a-fA-F]{2})*)?",
            "(#([a-zA-Z0-9\\-._~!$&'()*+,;=:@/?]|%[0-9a-fA-F]{2})*)?"
        )
    };
}
macro_rules! uri {
    () => {
        concat!(
            "((https?|ftp|wss?)://[a-zA-Z0-9]{1,31}(-[a-zA-Z0-9]{1,30})?",
            "(\\.[a-zA-Z][a-zA-Z0-9]{0,30}(-[a-zA-Z0-9]{1,30})?){0,3}",
            "(:[1-9][0-9]{0,3})?(/([a-zA-Z0-9\\-._~!$&'()*+,;=:@]|%[0-9a-fA-F]{2})*)*",
            "|(urn|mailto|file|data):[a-zA-Z0-9]([a-zA-Z0-9\\-._~!$&'()*+,;=:@/]|%[0-9a-fA-F]{2})*)",
            tail!()
        )
    };
}
/// A part of a path.
macro_rules! part {
    () => {
        "([a-zA-Z0-9\\-._~!$&'()*+,;=@]|%[0-9a-fA-F]{2})"
    };
}
const URI: &str = uri!();
const URI_REFERENCE: &str =
    concat!("(", uri!(), "|(/?", part!(), "+(/", part!(), "*)*)?", tail!(), ")");
const URI_TEMPLATE: &str = concat!(
    "([a-zA-Z0-9\\-._~!$&()*+,;=:@/?#\\[\\]]|%[0-9a-fA-F]{2}",
    "|\\{[+#./;?&]?[a-zA-Z0-9_]+(\\.[a-zA-Z0-9_]+)*(:[1-9][0-9]{0,3}|\\*)?",
    "(,[a-zA-Z0-9_]+(\\.[a-zA-Z0-9_]+)*(:[1-9][0-9]{0,3}|\\*)?)*\\})*"
);
const POINTER: &str = "(/([^/~]|~[01])*)*";
const RELATIVE_POINTER: &str = "(0|[1-9][0-9]{0,8})(#|(/([^/~]|~[01])*)*)";
const REGEX: &str = "\\^?(([a-zA-Z0-9 _,:;@#%&=<>!\"'~\\-]|\\.|\\\\[dDwWsS.\\\\]|\\[\\^?[a-zA-Z0-9_]+\\])[*+?]?)*\\$?";
