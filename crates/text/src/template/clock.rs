//! The time of day, handed in, and Python's `strftime`.
use std::fmt::Write;

/// A local date and time of the proleptic Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateTime {
    /// The year.
    pub year: i32,
    /// From 1.
    pub month: u32,
    /// From 1.
    pub day: u32,
    /// 0–23.
    pub hour: u32,
    /// 0–59.
    pub minute: u32,
    /// 0–59.
    pub second: u32,
}

const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

impl DateTime {
    /// From seconds since 1970 (of local time: add the zone's offset first).
    pub fn from_unix(seconds: i64) -> DateTime {
        let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400) as u32);
        let (year, month, day) = civil(days);
        DateTime { year, month, day, hour: rest / 3600, minute: rest / 60 % 60, second: rest % 60 }
    }
    /// As C's `strftime` in the C locale, with GNU's flags `-`, `_`, `0`, `^` and `#`. An unknown
    /// conversion stays as it is; those of the zone are empty, as for Python's naive times.
    pub fn strftime(&self, format: &str) -> String {
        let mut out = String::new();
        let mut rest = format;
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            let flags = after.find(|c| !"-_0^#".contains(c)).unwrap_or(after.len());
            let Some(code) = after[flags..].chars().next() else {
                out.push_str(&rest[at..]);
                return out;
            };
            let end = flags + code.len_utf8();
            match self.field(code) {
                Some(field) => field.write(&after[..flags], &mut out),
                None => out.push_str(&rest[at..at + 1 + end]),
            }
            rest = &after[end..];
        }
        out + rest
    }
    fn field(&self, code: char) -> Option<Field> {
        let (weekday, yday) = (self.weekday(), self.day_of_year());
        let hour12 = (self.hour + 11) % 12 + 1;
        let half = if self.hour < 12 { "AM" } else { "PM" };
        let weekday_name = DAYS[weekday as usize];
        let month_name = MONTHS[(self.month.clamp(1, 12) - 1) as usize];
        Some(match code {
            'a' => Field::Text(weekday_name[..3].to_owned()),
            'A' => Field::Text(weekday_name.to_owned()),
            'b' | 'h' => Field::Text(month_name[..3].to_owned()),
            'B' => Field::Text(month_name.to_owned()),
            'p' => Field::Text(half.to_owned()),
            'P' => Field::Text(half.to_lowercase()),
            'c' => Field::Text(self.strftime("%a %b %e %H:%M:%S %Y")),
            'D' | 'x' => Field::Text(self.strftime("%m/%d/%y")),
            'F' => Field::Text(self.strftime("%Y-%m-%d")),
            'T' | 'X' => Field::Text(self.strftime("%H:%M:%S")),
            'R' => Field::Text(self.strftime("%H:%M")),
            'r' => Field::Text(self.strftime("%I:%M:%S %p")),
            'z' | 'Z' => Field::Text(String::new()),
            'n' => Field::Text("\n".to_owned()),
            't' => Field::Text("\t".to_owned()),
            '%' => Field::Text("%".to_owned()),
            'Y' => Field::Number(i64::from(self.year), 1, '0'),
            'C' => Field::Number(i64::from(self.year.div_euclid(100)), 2, '0'),
            'y' => Field::Number(i64::from(self.year.rem_euclid(100)), 2, '0'),
            'G' => Field::Number(i64::from(self.iso_week().0), 1, '0'),
            'g' => Field::Number(i64::from(self.iso_week().0.rem_euclid(100)), 2, '0'),
            'V' => Field::Number(self.iso_week().1.into(), 2, '0'),
            'm' => Field::Number(self.month.into(), 2, '0'),
            'd' => Field::Number(self.day.into(), 2, '0'),
            'e' => Field::Number(self.day.into(), 2, ' '),
            'H' => Field::Number(self.hour.into(), 2, '0'),
            'k' => Field::Number(self.hour.into(), 2, ' '),
            'I' => Field::Number(hour12.into(), 2, '0'),
            'l' => Field::Number(hour12.into(), 2, ' '),
            'M' => Field::Number(self.minute.into(), 2, '0'),
            'S' => Field::Number(self.second.into(), 2, '0'),
            'f' => Field::Number(0, 6, '0'),
            'j' => Field::Number(i64::from(yday) + 1, 3, '0'),
            'u' => Field::Number(i64::from((weekday + 6) % 7 + 1), 1, '0'),
            'w' => Field::Number(weekday.into(), 1, '0'),
            'U' => Field::Number(i64::from((yday + 7 - weekday) / 7), 2, '0'),
            'W' => Field::Number(i64::from((yday + 7 - (weekday + 6) % 7) / 7), 2, '0'),
            's' => Field::Number(self.unix(), 1, '0'),
            _ => return None,
        })
    }
    fn unix(&self) -> i64 {
        let time = self.hour * 3600 + self.minute * 60 + self.second;
        days(self.year, self.month, self.day) * 86_400 + i64::from(time)
    }
    /// From Sunday, 0.
    fn weekday(&self) -> u32 {
        (days(self.year, self.month, self.day) + 4).rem_euclid(7) as u32
    }
    /// From 0.
    fn day_of_year(&self) -> u32 {
        (days(self.year, self.month, self.day) - days(self.year, 1, 1)) as u32
    }
    /// ISO 8601's year and week: a week belongs to the year of its Thursday.
    fn iso_week(&self) -> (i32, u32) {
        let monday = i64::from((self.weekday() + 6) % 7);
        let thursday = days(self.year, self.month, self.day) - monday + 3;
        let year = civil(thursday).0;
        (year, ((thursday - days(year, 1, 1)) / 7 + 1) as u32)
    }
}

enum Field {
    Text(String),
    /// A number, its width and what fills it.
    Number(i64, usize, char),
}

impl Field {
    fn write(self, flags: &str, out: &mut String) {
        let text = match self {
            Field::Text(text) => text,
            Field::Number(n, width, fill) => {
                let pad = flags.chars().rfind(|c| "-_0".contains(*c));
                // Writing to a string can't fail.
                let _ = match (pad, fill) {
                    (Some('-'), _) => write!(out, "{n}"),
                    (Some('_'), _) | (None, ' ') => write!(out, "{n:width$}"),
                    _ => write!(out, "{n:0width$}"),
                };
                return;
            }
        };
        match flags.contains(['^', '#']) {
            true => out.push_str(&text.to_uppercase()),
            false => out.push_str(&text),
        }
    }
}

/// Days since 1970 of a date, counting years from March so that leap days come last.
fn days(year: i32, month: u32, day: u32) -> i64 {
    let year = i64::from(year) - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = i64::from((153 * ((month + 9) % 12) + 2) / 5 + day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The date that is so many days after 1970 began.
fn civil(days: i64) -> (i32, u32, u32) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * day + 2) / 153;
    let month = (from_march + 2) % 12 + 1;
    let day = day - (153 * from_march + 2) / 5 + 1;
    ((year + era * 400 + i64::from(month <= 2)) as i32, month as u32, day as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Python's answers.
    #[test]
    fn strftime() {
        let cases = [
            (1_751_632_496, "%Y-%m-%d %H:%M:%S", "2025-07-04 12:34:56"),
            (1_751_632_496, "%d %b %Y|%-d %B, %y|%A %a %e", "04 Jul 2025|4 July, 25|Friday Fri  4"),
            (1_751_632_496, "%I:%M %p %j %U %W %V %G %u %w", "12:34 PM 185 26 26 27 2025 5 5"),
            (
                1_751_632_496,
                "%c|%x|%X|%F %T|%^a",
                "Fri Jul  4 12:34:56 2025|07/04/25|12:34:56|2025-07-04 12:34:56|FRI",
            ),
            (1_704_067_199, "%F %T %V %G %j", "2023-12-31 23:59:59 52 2023 365"),
            (1_709_164_800, "%F %-I %l%P", "2024-02-29 12 12am"),
            (-1, "%F %T %s %Q %%%", "1969-12-31 23:59:59 -1 %Q %%"),
        ];
        for (unix, format, want) in cases {
            assert_eq!(DateTime::from_unix(unix).strftime(format), want, "{format}");
        }
    }

    #[test]
    fn dates_round_trip() {
        for day in (-800_000..800_000).step_by(37) {
            let (y, m, d) = civil(day);
            assert_eq!(days(y, m, d), day);
        }
    }
}
