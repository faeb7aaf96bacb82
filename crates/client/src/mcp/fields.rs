//! Values read from the members of a JSON object by name; whatever is not asked for is kept as it was written.

use salon_protocol::Members;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::ser::SerializeMap;
use serde_json::value::RawValue;

/// Takes a member that must be there and fit.
pub(super) fn required<T: DeserializeOwned>(members: &mut Members, name: &str) -> Result<T, String> {
    let raw = members.get(name).ok_or_else(|| format!("`{name}` is missing"))?;
    let value = serde_json::from_str(raw.get()).map_err(|error| format!("`{name}`: {error}"))?;
    members.remove(name);
    Ok(value)
}

/// Takes a member if it is there and fits. One that does not fit stays where it is.
pub(super) fn optional<T: DeserializeOwned>(members: &mut Members, name: &str) -> Result<Option<T>, String> {
    let Some(raw) = members.get(name) else { return Ok(None) };
    let read: Option<T> = serde_json::from_str(raw.get()).unwrap_or_default();
    if read.is_some() {
        members.remove(name);
    }
    Ok(read)
}

/// Takes a member if it is there and fits, or what stands for its absence.
pub(super) fn lenient<T: DeserializeOwned + Default>(members: &mut Members, name: &str) -> Result<T, String> {
    Ok(optional(members, name)?.unwrap_or_default())
}

/// The same, of a member that MCP requires even when it is empty.
pub(super) use lenient as always;

/// Takes a member that is an object, or an empty one.
pub(super) fn object(members: &mut Members, name: &str) -> Result<Box<RawValue>, String> {
    Ok(optional(members, name)?.unwrap_or_else(empty_object))
}

/// Takes a JSON Schema, or the one that takes any object.
pub(super) fn schema(members: &mut Members, name: &str) -> Result<Box<RawValue>, String> {
    Ok(optional(members, name)?.unwrap_or_else(|| raw(&serde_json::json!({"type": "object"}))))
}

/// How a value is written among the members of an object: what stands for absence is left out.
pub(super) mod write {
    use super::*;

    pub(crate) fn required<M: SerializeMap>(map: &mut M, name: &str, value: &impl Serialize) -> Result<(), M::Error> {
        map.serialize_entry(name, value)
    }

    pub(crate) fn optional<M: SerializeMap>(
        map: &mut M,
        name: &str,
        value: &Option<impl Serialize>,
    ) -> Result<(), M::Error> {
        value.as_ref().map_or(Ok(()), |value| map.serialize_entry(name, value))
    }

    pub(crate) fn lenient<M: SerializeMap, T: Serialize + Absent>(
        map: &mut M,
        name: &str,
        value: &T,
    ) -> Result<(), M::Error> {
        if value.is_absent() { Ok(()) } else { map.serialize_entry(name, value) }
    }

    pub(crate) use required as always;
    pub(crate) use required as object;
    pub(crate) use required as schema;
}

/// Whether a value means the same as its absence.
pub(super) trait Absent {
    fn is_absent(&self) -> bool;
}

impl Absent for bool {
    fn is_absent(&self) -> bool {
        !self
    }
}

impl<T> Absent for Vec<T> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

/// `{}`.
pub(crate) fn empty_object() -> Box<RawValue> {
    RawValue::from_string("{}".into()).expect("an empty object is JSON")
}

/// A value as raw JSON.
pub(crate) fn raw(value: &serde_json::Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("a JSON value is JSON")
}

/// A struct that reads some members of an object by name and keeps the others in `rest`. How each is read and written is one of the
/// functions above and its namesake in [`write`].
macro_rules! value {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $field:ident: $type:ty = $how:ident $key:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$about])* pub $field: $type,)*
            /// Every other member, as it was written.
            pub rest: salon_protocol::Members,
        }

        impl $name {
            pub(in $crate::mcp) fn from_members(mut members: salon_protocol::Members) -> Result<Self, String> {
                $(let $field = $crate::mcp::fields::$how(&mut members, $key)?;)*
                Ok(Self { $($field,)* rest: members })
            }

            pub(in $crate::mcp) fn write_members<M: serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                $($crate::mcp::fields::write::$how(map, $key, &self.$field)?;)*
                self.rest.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let members = salon_protocol::Members::deserialize(deserializer)?;
                Self::from_members(members).map_err(serde::de::Error::custom)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                self.write_members(&mut map)?;
                serde::ser::SerializeMap::end(map)
            }
        }
    };
}
pub(super) use value;
